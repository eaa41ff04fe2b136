"""The Spark data source `mqtt`: a journal of an MQTT topic tree as a stream, or as a table."""
