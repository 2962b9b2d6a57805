#!/bin/bash
# Latency first. Written by the administrators of the trading floor.

. /etc/tune-profiles/functions

NICS=$(ls -1 /sys/class/net | grep '^eth')
QUEUES=/sys/block/sd?/queue/nr_requests

set_irqs() {
    for irq in $(grep eth /proc/interrupts | cut -d: -f1); do
        echo 2 > /proc/irq/$irq/smp_affinity
    done
}

start() {
    set_cpu_governor performance
    set_transparent_hugepages never
    /usr/libexec/tuned/pmqos-static.py cpu_dma_latency=1
    set_disk_readahead 128
    echo never > /sys/kernel/mm/redhat_transparent_hugepage/defrag
    echo 0 > /proc/sys/kernel/numa_balancing; sysctl -q -w net.ipv4.tcp_low_latency=1 vm.swappiness=0
    echo 2 > /sys/block/sda/queue/rq_affinity
    ethtool -K eth0 lro off gro off 2>/dev/null
    ethtool -C eth0 rx-usecs 0
    ethtool -s eth1 wol d
    set_irqs
    for q in $QUEUES; do
        echo 32 > $q
    done
    if [ "$(uname -m)" = x86_64 ]; then
        mount -o remount,nobarrier /srv/journal
    fi
    remount_partitions noatime,nobarrier /srv/journal /srv/data
    [ -d /sys/class/net/eth9 ] || return 0
    set_disk_alpm max_performance
    cat > /var/run/latency.txt <<EOF
started with:
}
$NICS
EOF
    return 0
}

stop() {
    restore_cpu_governor
    restore_transparent_hugepages
    /usr/libexec/tuned/pmqos-static.py disable
    restore_disk_readahead
    echo 1 > /sys/block/sda/queue/rq_affinity
    ethtool -K eth0 lro on gro on
    ethtool -C eth0 rx-usecs 3
    for q in $QUEUES; do
        echo 128 > $q
    done
    remount_partitions barrier /srv/journal
    set_disk_alpm medium_power
    rm -f /var/run/latency.txt
    return 0
}

process "$@"
