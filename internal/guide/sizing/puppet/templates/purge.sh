#!/bin/sh
# Empties the cache in front of Puppet Server. Written by fettle size puppet.
# Cached answers are wrong after a deployment: r10k calls this as postrun.
exec find '{{.CacheDir}}' -mindepth 1 -type f -delete
