"""Sessions: agents in tmux panes, opened, given work, written to, stopped, brought back, and looked after."""
