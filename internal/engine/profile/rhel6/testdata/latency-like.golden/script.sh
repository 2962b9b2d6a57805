#!/bin/bash
# Commands from ktune.sh of the RHEL 6 profile latency-like that no plug-in replaces.

# shellcheck disable=SC2034 # the functions use it
PROFILE=latency-like
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

set_irqs() {
    for irq in $(grep eth /proc/interrupts | cut -d: -f1); do
        echo 2 > /proc/irq/$irq/smp_affinity
    done
}

# before start and stop
prepare() {
	NICS=$(ls -1 /sys/class/net | grep '^eth')
	QUEUES=/sys/block/sd?/queue/nr_requests
	return 0
}

# when the profile is applied
start() {
	set_irqs
	for q in $QUEUES; do
        echo 32 > $q
    done
	remount_partitions noatime /srv/journal /srv/data
	[ -d /sys/class/net/eth9 ] || return 0
	set_disk_alpm max_performance
	cat > /var/run/latency.txt <<EOF
started with:
}
$NICS
EOF
	return 0
}

# when the profile is undone
stop() {
	for q in $QUEUES; do
        echo 128 > $q
    done
	set_disk_alpm medium_power
	rm -f /var/run/latency.txt
	return 0
}

# compares; it changes nothing
verify() {
	return 0
}

process "$@"
