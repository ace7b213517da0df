"""One room per paper, found by discovery."""
