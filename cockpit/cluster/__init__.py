"""Ray over the profile's hosts: start, stop, membership. Builds commands and reads answers; runs nothing."""
