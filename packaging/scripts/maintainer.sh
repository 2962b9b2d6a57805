#!/bin/sh
# What the package fettle does when it is installed, upgraded or removed: one file for dpkg and
# rpm. packaging/build makes three scripts of it; the last line of each calls after_install,
# before_remove or after_remove with the arguments of dpkg (deb-postinst(5), deb-prerm(5),
# deb-postrm(5)) or rpm (the number of versions that will be installed).
#
# - Installing starts and enables nothing and writes no value: fettle tune --persist does.
# - An upgrade keeps the tuning in force. The daemon leaves its values when it ends, so it is
#   restarted after the new files are in place. Only the new package's after_install acts: rpm
#   runs it BEFORE the old package's before_remove and after_remove, with 1, not 0, for both.
# - A removal restores every value (fettle undo), lists them, and names what stays until a reboot
#   or until programs end. Undo restarts TuneD if fettle had taken over from it. It comes before
#   the daemon is stopped: undo is one transaction, so a killed removal leaves the old tuning, or
#   an undo that the next attempt finishes.
# - If undo is killed or cannot start because another transaction is running, the removal fails,
#   so that the program is still there to finish it. If a value cannot be restored, the removal
#   goes on, says so, and keeps the journal: fettle installed again can undo it. A broken value
#   must not block apt for ever.
# - dpkg's purge also deletes measurements and journal, unless the journal is needed for that.
# - In a chroot, an image build, or an image-based system (rpm-ostree, bootc) nothing runs that
#   touches a kernel or a unit.
set -e

state=${DPKG_ROOT:-}/var/lib/fettle
# The mark of a removal that could not restore every value.
unrestored=$state/not-restored

say() { echo "fettle: $*" >&2; }

# offline reports whether no kernel and no unit must be touched, and sets why.
offline() {
	why=
	if [ -n "${DPKG_ROOT:-}" ]; then
		why="DPKG_ROOT is set"
	elif [ "${SYSTEMD_OFFLINE:-0}" = 1 ]; then
		why="SYSTEMD_OFFLINE is set"
	elif [ -e /run/ostree-booted ]; then
		why="this system is an image (rpm-ostree, bootc)"
	elif [ ! -d /run/systemd/system ]; then
		why="systemd does not run here"
	elif systemd-detect-virt --quiet --chroot; then
		why="this is a chroot"
	elif command -v policy-rc.d >/dev/null; then
		policy-rc.d fettle.service restart >/dev/null 2>&1 || [ $? -ne 101 ] || why="policy-rc.d forbids it"
	fi
	[ -n "$why" ]
}

# A killed attempt may have left a transaction half done: finish or revert it.
recover() {
	[ ! -e "$state/journal" ] || /usr/bin/fettle recover || say "an interrupted transaction could not be reverted; run: fettle status"
}

# restart starts the daemon again if it runs another file than the installed one, so that a
# repeated configuration does not restart it twice.
restart() {
	pid=$(systemctl show --property MainPID --value fettle.service)
	[ "${pid:-0}" -gt 0 ] || return 0
	case $(readlink "/proc/$pid/exe") in
	/usr/bin/fettle) return 0 ;;
	esac
	# The limit on wake-up latency ends with the process that has this file open. Meanwhile this
	# script keeps the limit that is in force.
	if [ -c /dev/cpu_dma_latency ]; then
		exec 9<>/dev/cpu_dma_latency
		dd if=/dev/cpu_dma_latency bs=4 count=1 >&9 2>/dev/null || true
	fi
	systemctl try-restart fettle.service || say "the daemon did not restart; values stay; see: systemctl status fettle"
	exec 9>&-
}

after_install() {
	! offline || return 0
	systemctl daemon-reload
	recover
	case $1 in
	abort-*) ;;
	*) restart ;;
	esac
}

# undo waits a little for the end of another transaction (exit code 75).
undo() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		code=0
		/usr/bin/fettle undo --details || code=$?
		[ "$code" -eq 75 ] || break
		sleep 1
	done
	return "$code"
}

# in_force reports whether the journal has changes that undo would revert. It only reads. Another
# system's journal (DPKG_ROOT) counts as such.
in_force() {
	[ -e "$state/journal" ] || return 1
	[ -z "${DPKG_ROOT:-}" ] || return 0
	! /usr/bin/fettle undo --dry-run --output json 2>/dev/null | grep -q '"undoes": \[\]'
}

# keep marks the journal as needed, says why, and what to do.
keep() {
	: >"$unrestored"
	say "$1"
	say "$state keeps the old values."
	say "To restore them later, install fettle again and run: fettle undo"
}

before_remove() {
	case $1 in
	remove | 0) ;;
	*) return 0 ;;
	esac
	if offline; then
		if in_force; then
			keep "no value was restored: $why."
		fi
		return 0
	fi
	if [ -e "$state/journal" ]; then
		code=0
		undo || code=$?
		if [ "$code" -eq 0 ]; then
			rm -f "$unrestored"
		elif [ "$code" -eq 75 ] || [ "$code" -gt 125 ]; then
			say "not removed: undo ended with exit code $code."
			say "To finish it, remove the package again."
			exit 1
		else
			keep "not every value was restored (exit code $code)."
		fi
	fi
	for unit in fettle-metrics.timer fettle.service fettle-recover.service; do
		systemctl --quiet disable --now "$unit" || say "$unit could not be disabled"
	done
}

after_remove() {
	case $1 in
	remove | 0)
		# What fettle-metrics.service wrote: node_exporter would report it for ever.
		for verb in status verify check; do
			rm -f "${DPKG_ROOT:-}/var/lib/prometheus/node-exporter/fettle-$verb.prom"
		done
		offline || systemctl daemon-reload
		;;
	purge)
		rm -rf "${DPKG_ROOT:-}/etc/fettle"
		if [ -e "$unrestored" ]; then
			find "$state" -mindepth 1 -maxdepth 1 ! -name 'journal*' ! -name not-restored -exec rm -rf {} +
			say "$state/journal is kept: it has values that were not restored."
			say "To give them up, run: rm -r $state"
		else
			rm -rf "$state"
		fi
		;;
	esac
}
