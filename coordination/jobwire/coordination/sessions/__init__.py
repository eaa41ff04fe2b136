"""Sessions: tmux containers in which agents live, as the store knows them; nothing here knows tmux."""
