"""Measurements that take minutes and want an idle machine; `make bench` runs them all, `make bench ARGS=speed` one."""
