package setting

import (
	"context"
	"path"
	"slices"
	"strings"
)

// Restore implements Restorer for files that are written one word at a time and read as
// a list: it writes each word that the old value had and the present one lacks.
func (k sysfs) Restore(ctx context.Context, s Setting, had Value) error {
	refused := k.Write(ctx, s, had)
	if refused == nil || had.Absent {
		return refused
	}
	now, err := k.Read(ctx, s)
	if err != nil {
		return refused
	}
	then, present := strings.Fields(had.Text), strings.Fields(now.Text)
	missing := slices.DeleteFunc(slices.Clone(then), func(w string) bool { return slices.Contains(present, w) })
	switch base := path.Base(s.Name); {
	case base == "cgroup.subtree_control":
		for i := range missing {
			missing[i] = "+" + missing[i]
		}
		for _, w := range present {
			if !slices.Contains(then, w) {
				missing = append(missing, "-"+w)
			}
		}
	case base == "trace_options", s.Name == "/sys/kernel/debug/sched/features", s.Name == "/sys/kernel/debug/sched_features":
	default:
		return refused
	}
	for _, w := range missing {
		if err := k.Write(ctx, s, Text(w)); err != nil {
			return err
		}
	}
	return nil
}
