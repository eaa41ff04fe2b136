"""From a durable event to the registry's word: outbox, sender, confirmation, relay."""
