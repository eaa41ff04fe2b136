"""Boards: members assess, discuss and vote on a proposal, and a resolution says what was decided."""
