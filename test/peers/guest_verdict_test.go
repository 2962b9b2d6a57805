package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// verify compares the verdicts with what the kernel shows, and of every fourth profile
// makes one value another one, which verify has to see.
func (g *guestRun) verify(p guestProfile, before, ours root.Tree, fail func(string, ...any)) {
	v, ok := verification(fail)
	if !ok {
		return
	}
	spoilt := p.n%4 != 0
	for _, c := range v.Values {
		g.kinds[c.Setting.Kind+" "+string(c.Verdict)]++
		why := disagrees(c)
		if shown, known := shownInGuest(c, ours); known {
			g.shown++
			if shown == c.Want.Text != (c.Verdict == "ok") {
				why = "the machine shows " + shown
			}
		}
		if why != "" {
			fail("verify says %s (%s) of %s = %s, which reads %s: %s", c.Verdict, c.Why, c.Setting, c.Want, c.Now, why)
		}
	}
	// Last, as a change of the scheduler by hand also changes what depends on it.
	for _, c := range v.Values {
		had := before[c.Setting.Name]
		if spoilt || c.Setting.Kind != "sysfs" || c.Verdict != "ok" || had == "" || had == ours[c.Setting.Name] {
			continue
		}
		spoilt = true
		g.spoil(c, setting.ActiveWord(had), fail)
	}
}

// spoil writes what a file had before, and asks for a verdict again.
func (g *guestRun) spoil(c tune.Checked, had string, fail func(string, ...any)) {
	if err := os.WriteFile(c.Setting.Name, []byte(had), 0o600); err != nil {
		return
	}
	again, ok := verification(fail)
	for _, d := range again.Values {
		if ok && d.Setting == c.Setting && (d.Verdict == "ok" || again.Met) {
			fail("%s was set to %s by hand, and verify says %s", c.Setting, had, d.Verdict)
		}
	}
	g.spoilt++
	if err := os.WriteFile(c.Setting.Name, []byte(c.Want.Text), 0o600); err != nil {
		fail("%v", err)
	}
}

// verification is what fettle verify says; its exit code has to say the same.
func verification(fail func(string, ...any)) (v tune.Verification, ok bool) {
	text, code := command("fettle", "verify", "--output", "json")
	if _, text, ok = strings.Cut("\n"+text, "\n{"); !ok {
		fail("verify: %s", text)
	} else if err := json.NewDecoder(strings.NewReader("{" + text)).Decode(&v); err != nil {
		fail("verify: %v", err)
		ok = false
	} else if v.Met != (code == 0) {
		fail("verify: met %v, exit %d", v.Met, code)
	}
	return v, ok
}

// shownInGuest is what the kernel and the programs of the field show of a value that is
// not a file's; known is false where nothing but fettle shows it, or it is not set.
func shownInGuest(c tune.Checked, now root.Tree) (shown string, known bool) {
	if c.Verdict != "ok" && c.Verdict != "drifted" {
		return "", false
	}
	name, what, _ := strings.Cut(c.Setting.Name, "/")
	switch c.Setting.Kind {
	case "irq":
		shown, known = now["/proc/irq/"+name+"/smp_affinity_list"]
		return shown, known && name != "DEFAULT"
	case "pmqos":
		return wakeUpLatency(), true
	case "net":
		return shownOfDevice(name, what, now)
	case "unit":
		shown, known = now["unit "+name]
		property := map[string]string{"active": "ActiveState=", "enabled": "UnitFileState="}[what]
		for _, word := range strings.Fields(shown) {
			if v, ok := strings.CutPrefix(word, property); ok && property != "" {
				return v, known
			}
		}
	}
	return "", false
}

// shownOfDevice is what ethtool and /sys show of a network device's parameter.
func shownOfDevice(device, what string, now root.Tree) (string, bool) {
	group, param, _ := strings.Cut(what, "-")
	switch group {
	case "mtu", "txqueuelen":
		file := map[string]string{"mtu": "mtu", "txqueuelen": "tx_queue_len"}[group]
		b, err := os.ReadFile(fmt.Sprintf("/sys/class/net/%s/%s", device, file))
		return strings.TrimSpace(string(b)), err == nil
	case "ring", "channels":
		flag := map[string]string{"ring": "-g", "channels": "-l"}[group]
		v, ok := now[fmt.Sprintf("ethtool %s %s current hardware settings: %s", flag, device, param)]
		return v, ok
	case "coalesce":
		v, ok := now[fmt.Sprintf("ethtool -c %s %s", device, param)]
		return v, ok && v != "on" && v != "off"
	}
	return "", false
}
