"""Registration methods, one file each. A method receives two clouds only; no module here imports `bench`."""
