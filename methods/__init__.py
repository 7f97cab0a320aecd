"""Registration methods, one file each. A method sees two clouds and nothing else; nothing here imports `bench`."""
