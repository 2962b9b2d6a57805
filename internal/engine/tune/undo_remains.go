package tune

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
)

// Remaining is an effect that outlives an undo: the value is restored, but the machine uses the
// old one until a reboot or until a program ends.
type Remaining struct {
	Setting setting.Setting `json:"setting"`
	Why     string          `json:"why"`
}

// remaining lists what the restored values still have in force.
func (e *Engine) remaining(ctx context.Context, moves []move) []Remaining {
	var out []Remaining
	for i := range moves {
		m := &moves[i]
		if m.state != journal.Restored || m.found.String() == m.to.String() {
			continue
		}
		why := e.surplus(m)
		kind := e.Kinds[m.setting.Kind]
		if ef, ok := kind.(Effecter); ok && kind.Lifetime() == setting.Reboot {
			if verdict, _ := ef.Effect(ctx, m.setting, m.found); verdict == plugin.OK {
				why = "restored in its file; this boot was started with the other value, which stays in force until the next reboot"
			}
		}
		if why != "" {
			out = append(out, Remaining{m.setting, why})
		}
	}
	return out
}

// surplus returns how many huge pages a lower limit has left in use (hugetlbpage.rst, "surplus
// huge pages"), or "".
func (e *Engine) surplus(m *move) string {
	pool := ""
	switch {
	case m.setting == setting.Setting{Kind: "sysctl", Name: "vm.nr_hugepages"}:
		pool = "/sys/kernel/mm/hugepages/hugepages-" + setting.DefaultHugePage(e.Host)
	case m.setting.Kind == "sysfs" && path.Base(m.setting.Name) == "nr_hugepages":
		pool = path.Dir(m.setting.Name)
	default:
		return ""
	}
	found, err1 := strconv.Atoi(strings.TrimSpace(m.found.Text))
	to, err2 := strconv.Atoi(strings.TrimSpace(m.to.Text))
	text, err3 := e.Host.Files.ReadFile(pool + "/surplus_hugepages")
	n, err4 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || to >= found || n == 0 {
		return ""
	}
	if n == 1 {
		return "1 huge page is in use; the kernel frees it when its program ends"
	}
	return fmt.Sprintf("%d huge pages are in use; the kernel frees them when their programs end", n)
}
