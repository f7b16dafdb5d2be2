"""Parts of `collect publish`: the dataset on the Hub, what is new for it, what must not leave, the files that carry it."""
