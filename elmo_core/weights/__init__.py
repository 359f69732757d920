"""Sources of weights: checkpoints by path or name, and the formats of other projects."""
