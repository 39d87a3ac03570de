"""Python programs that run on the hosts, with the standard library only: their text is sent, they are never
imported here."""
