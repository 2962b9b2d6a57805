#!/usr/bin/env bash
# TuneD 2.20.0 (Debian 2.20.0-1): the profile cpu-partitioning, which is documented to keep
# chosen CPUs free of other work, also turns the kernel's multihit mitigation of KVM off.
#
# Its script.sh calls setup_kvm_mod_low_latency of TuneD's functions, which writes
# "options kvm nx_huge_pages=0" (next to kvmclock_periodic_sync=0 and ple_gap=0) to
# /etc/modprobe.d/kvm.rt.tuned.conf. It asks neither whether the machine is a host of
# virtual machines nor whether its processor needs the mitigation; neither tuned.conf nor
# its summary has a word of it, "tuned-adm verify" does not check it, and it takes effect
# when kvm is loaded next. It is unchanged in TuneD's repository in August 2026.
#
# Here the package's own function runs, with a modinfo that lists the parameters of Linux
# 6.1's kvm and kvm_intel, and with its file in a temporary folder. Seen:
#
#   options kvm kvmclock_periodic_sync=0
#   options kvm nx_huge_pages=0
#   options kvm_intel ple_gap=0
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download tuned >/dev/null 2>&1
dpkg -x tuned_*.deb root
dpkg-deb -f tuned_*.deb Package Version | tr '\n' ' '
echo
profile=root/usr/lib/tuned/cpu-partitioning
grep -q setup_kvm_mod_low_latency "$profile/script.sh" || { echo "script.sh of cpu-partitioning does not set up kvm any more"; exit 1; }
if grep -qE 'nx_huge_pages|kvm' <(grep -v '^ps_blacklist' "$profile/tuned.conf"); then
	echo "tuned.conf of cpu-partitioning names kvm's options now"
	exit 1
fi
(
	set +eu
	modinfo() {
		case $2 in
		kvm) printf '%s\n' 'nx_huge_pages: (bool)' 'kvmclock_periodic_sync:bool' ;;
		kvm_intel) echo 'ple_gap:uint' ;;
		esac
	}
	. root/usr/lib/tuned/functions
	kvm_modprobe_file=$work/kvm.conf
	setup_kvm_mod_low_latency
) 2>/dev/null
cat kvm.conf
grep -qx 'options kvm nx_huge_pages=0' kvm.conf || { echo "the mitigation is left on now"; exit 1; }
