"""What a receipt brings about: who is told of it, and the directives in it, sent in the same transaction."""
