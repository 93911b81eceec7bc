"""Questions about limits, each answered by replays."""
