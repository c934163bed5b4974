"""File-system craft that every room shares: atomic files and folders, locks, digests, disk errors, file types."""
