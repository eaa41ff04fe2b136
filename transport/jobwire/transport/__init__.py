"""The one place that knows paho: connections to an MQTT broker."""
