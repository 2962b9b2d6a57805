package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// There is no systemd in the root of a cluster. An agent that stops and starts the
// kubelet by it finds programs of its names here, which ask the test by files: whatever
// becomes of the agent, the kubelet is the test's child. What systemd itself does with a
// unit is seen in kube/kubelet/node, with the real one.

const systemdDir = "/run/fettle-test-systemd"

// systemctlText does what is asked of one unit, the kubelet's, and knows its guard.
const systemctlText = `#!/bin/sh
dir=` + systemdDir + `
ask() {
	echo "$1" >"$dir/$$.new" && mv "$dir/$$.new" "$dir/$$.order"
	while [ ! -e "$dir/$$.done" ]; do sleep 0.02; done
	said=$(cat "$dir/$$.done")
	rm -f "$dir/$$.done"
	[ -z "$said" ] || { echo "$said" >&2; exit 1; }
}
case "$1:$(eval echo \$$#)" in
show:kubelet.service)
	active=inactive
	grep -qsx kubelet /proc/[0-9]*/comm && active=active
	printf 'LoadState=loaded\nActiveState=%s\nMainPID=0\nCanReload=no\nNRestarts=0\n' $active ;;
show:*) printf 'LoadState=not-found\nActiveState=inactive\nMainPID=0\nCanReload=no\nNRestarts=0\n' ;;
stop:kubelet.service) ask stop ;;
start:kubelet.service) ask start ;;
stop:fettle-kubelet-guard.timer) rm -f "$dir/guard" ;;
reset-failed:*) ;;
*) echo "not known here: $*" >&2; exit 1 ;;
esac
`

// systemdRunText is the guard, which the test carries out: it is systemd's, and outlives
// the control group of whoever has asked for it.
const systemdRunText = `#!/bin/sh
dir=` + systemdDir + `
for word; do
	case "$word" in --on-active=*) after=${word#--on-active=} ;; esac
done
echo "$after" >"$dir/guard.new" && mv "$dir/guard.new" "$dir/guard"
`

const journalctlText = `#!/bin/sh
case "$*" in *_SYSTEMD_UNIT=kubelet.service*) tail -n 15 ` + systemdDir + `/log ;; esac
`

// systemd carries out what the programs are asked.
type systemd struct {
	*testing.T
	kubelet *Kubelet

	mu sync.Mutex
	// at is called before and after an order is carried out: "stop:before".
	at func(point string)
	// done are the orders, in their order.
	done []string
}

// systemd puts the programs into the root, and carries out what they are asked until the
// test ends.
func (c *Cluster) systemd(t *testing.T) *systemd {
	t.Helper()
	c.must(os.MkdirAll(systemdDir, 0o700))
	c.must(os.Symlink(c.Kubelet.log, systemdDir+"/log"))
	for name, text := range map[string]string{"systemctl": systemctlText, "systemd-run": systemdRunText, "journalctl": journalctlText} {
		c.must(os.MkdirAll("/usr/local/sbin", 0o755))
		c.must(os.WriteFile("/usr/local/sbin/"+name, []byte(text), 0o755))
	}
	s := &systemd{T: t, kubelet: c.Kubelet}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.serve(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s
}

func (s *systemd) serve(ctx context.Context) {
	h := harness{s.kubelet}
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		s.guard(ctx, h)
		orders, _ := filepath.Glob(systemdDir + "/*.order")
		for _, name := range orders {
			text, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			_ = os.Remove(name)
			order := strings.TrimSpace(string(text))
			s.point(order + ":before")
			said := ""
			if err := map[string]func(context.Context) error{"stop": h.Stop, "start": h.Start}[order](ctx); err != nil {
				said = err.Error()
			}
			s.point(order + ":after")
			reply := strings.TrimSuffix(name, ".order")
			_ = os.WriteFile(reply+".said", []byte(said), 0o600)
			_ = os.Rename(reply+".said", reply+".done")
		}
	}
}

// guard starts the kubelet when the time of its guard is over.
func (s *systemd) guard(ctx context.Context, h harness) {
	const file = systemdDir + "/guard"
	text, err := os.ReadFile(file)
	if err != nil {
		return // none is set
	}
	st, err := os.Stat(file)
	after, e := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || e != nil || time.Since(st.ModTime()) < time.Duration(after)*time.Second {
		return
	}
	_ = os.Remove(file)
	s.point("guard:before")
	if err := h.Start(ctx); err != nil {
		s.Logf("the guard: %v", err)
	}
	s.point("guard:after")
}

func (s *systemd) point(name string) {
	s.mu.Lock()
	at := s.at
	if order, ok := strings.CutSuffix(name, ":after"); ok {
		s.done = append(s.done, order)
	}
	s.mu.Unlock()
	if at != nil {
		at(name)
	}
}

// on calls do once, at a point.
func (s *systemd) on(point string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var once sync.Once
	s.at = func(name string) {
		if name == point {
			once.Do(do)
		}
	}
}

// orders are those since it was last asked.
func (s *systemd) orders() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := fmt.Sprint(s.done)
	s.done = nil
	return all
}
