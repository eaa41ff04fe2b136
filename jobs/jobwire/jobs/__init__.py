"""The rules of jobs: how an event looks, when it is believed, how a record changes. Pure."""
