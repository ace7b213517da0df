"""Style and files of pictures. Drawing functions receive axes and data; nothing here computes."""
