"""What `saddlescope new` writes: a complete small room, and its tests."""
