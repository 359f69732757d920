"""A trained model as a static graph, for runtimes in which no Python of ours runs."""
