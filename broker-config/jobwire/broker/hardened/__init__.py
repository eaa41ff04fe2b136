"""amqtt, closed where it is open: the broker behind EmbeddedBroker, and nobody else's business."""
