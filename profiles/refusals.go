package profiles

// Refusal is published guidance that a profile deliberately does not follow, because it has
// become harmful or meaningless. The profile refers to it in a comment ("# refused: ID").
type Refusal struct {
	// ID is the name in findings, comments and messages.
	ID string
	// Short is the name of the guidance in a headline.
	Short string
	// Profiles lists the profiles to which the guidance applies.
	Profiles []string
	// Guidance is the source's recommendation.
	Guidance string
	// Reason is why the profile does not follow it, as the end of a sentence.
	Reason string
	// Source is the source of the reason.
	Source string
}

// Refusals lists all refusals.
var Refusals = []Refusal{
	{
		ID:       "write-barriers-off",
		Short:    "write barriers off (unsafe)",
		Profiles: []string{"enterprise-storage", "virtual-host", "virtual-guest"},
		Guidance: "mount file systems without write barriers",
		Reason: "after a power failure or a crash of the host, data that a program was told to be on disk can be lost and the " +
			"file system damaged; flushes cost next to nothing on storage with a protected cache since the kernel stopped draining " +
			"queues for them (Linux 2.6.37), XFS has had no such option since Linux 4.19, and Red Hat took the option out of " +
			"virtual-guest in tuned 0.2.19-10",
		Source: "Linux Documentation/block/writeback_cache_control.rst; Linux 4.19, merge of xfs-4.19-merge-4; " +
			"Red Hat bugs 801561 and 886956",
	},
	{
		ID:       "scheduler-granularity-4ms",
		Short:    "scheduling granularity of 4 ms",
		Profiles: []string{"default"},
		Guidance: "a scheduling granularity and a wake-up granularity of 4 ms",
		Reason: "4 ms were what Linux 2.6.32 computed by itself on the machine that was measured, not a tuning; today's kernel " +
			"computes its own slice from the number of CPUs, and a profile that is to leave the kernel's values leaves this one too",
		Source: "Linux kernel/sched/fair.c, update_sysctl; Linux commit e4ec3318a17f5dcf11bc23b2d2c1da4c1c5bb507 " +
			"(sched/debug: Rename sysctl_sched_min_granularity to sysctl_sched_base_slice)",
	},
	{
		ID:       "initrd-workqueue-mask",
		Short:    "workqueue masks from the initrd",
		Profiles: []string{"cpu-partitioning"},
		Guidance: "set the masks of the kernel's workqueues from the initrd, by a script of dracut's that reads tuned.non_isolcpus",
		Reason: "a profile inside a program has no script, and the argument says nothing to the kernel; fettle's unit or agent sets " +
			"the same masks at each boot, before the programs that the CPUs are kept for are put there",
		Source: "TuneD 2.28, profiles/cpu-partitioning/00-tuned-pre-udev.sh; Linux Documentation/core-api/workqueue.rst",
	},
	{
		ID:       "kvm-module-options",
		Short:    "options of the kvm modules (unsafe)",
		Profiles: []string{"cpu-partitioning"},
		Guidance: "load kvm with kvmclock_periodic_sync=0 and nx_huge_pages=0, and kvm_intel with ple_gap=0",
		Reason: "nx_huge_pages=0 takes away the kernel's defense against guests that halt an Intel host (iTLB multihit); the " +
			"options concern hosts of virtual machines only, and take effect when kvm is loaded: write those that a host needs " +
			"into /etc/modprobe.d",
		Source: "TuneD 2.28, functions, setup_kvm_mod_low_latency; Linux Documentation/admin-guide/hw-vuln/multihit.rst",
	},
}
