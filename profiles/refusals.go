package profiles

// Refusal is published guidance that a profile does not follow, because it has
// become harmful or meaningless. The profile names it in a comment
// ("# refused: ID"), so that whoever reads the profile finds the reason.
type Refusal struct {
	// ID is what findings, comments and messages call it.
	ID string
	// Profiles are those of ours that would have the guidance.
	Profiles []string
	// Guidance is what the source asks for.
	Guidance string
	// Reason says why it is not done, as the end of a finding.
	Reason string
	// Source is where the reason can be read.
	Source string
}

// Refusals lists them all.
var Refusals = []Refusal{
	{
		ID:       "write-barriers-off",
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
		Profiles: []string{"default"},
		Guidance: "a scheduling granularity and a wake-up granularity of 4 ms",
		Reason: "4 ms were what Linux 2.6.32 computed by itself on the machine that was measured, not a tuning; today's kernel " +
			"computes its own slice from the number of CPUs, and a profile that is to leave the kernel's values leaves this one too",
		Source: "Linux kernel/sched/fair.c, update_sysctl; Linux commit e4ec3318a17f5dcf11bc23b2d2c1da4c1c5bb507 " +
			"(sched/debug: Rename sysctl_sched_min_granularity to sysctl_sched_base_slice)",
	},
}
