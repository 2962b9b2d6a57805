package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// round is the way round with a real product that runs: what is wrong in a place is
// found, fix mends it and the server runs with it, and undo gives back the bytes,
// and with them the findings.
type round struct {
	product string // what check is asked of
	kind    string // of what there are several rounds of a product for
	// edits make wrong what is in files of the product, or of the kernel's values.
	edits edits
	// before sets up what is not there; nil for nothing.
	before func(t *testing.T)
	// start starts it as its unit does, and ends it with the test.
	start func(t *testing.T)
	// runs is a command that prints what it runs with; "" where check asks it itself.
	runs string
	// mended is what that prints after fix.
	mended string
	// wrong are the rules that find it.
	wrong []string
	// parallel are those of wrong that find nothing on a machine with one CPU.
	parallel []string
}

// edits are what makes the text of each place wrong.
type edits map[string]func(t *testing.T, right string) string

// What is wrong in the files of products.
func TestFixesOfProducts(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	for _, r := range filesOfProducts {
		t.Run(r.product+r.kind, r.fixed)
	}
}

// What is wrong in the files of a server that takes most of a minute to start.
func TestFixesOfPuppetServer(t *testing.T) {
	testkitroot.Nightly(t, "starts Puppet Server three times, which takes minutes")
	if !testkitroot.Inside(t, testkitroot.Options{Puppet: true}) {
		return
	}
	puppetServer.fixed(t)
}

// What is wrong in the kernel for a product: most is of the network, of which the
// root has one of its own.
func TestFixesOfTheKernelForProducts(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true, Live: true, OwnNet: true}) {
		return
	}
	for _, r := range kernelForProducts {
		t.Run(r.product+r.kind, r.fixed)
	}
}

func (r round) fixed(t *testing.T) {
	if r.before != nil {
		r.before(t)
	}
	wrong := map[string]string{}
	for place, edit := range r.edits {
		right := read(t, place)
		put(t, place, edit(t, right))
		t.Cleanup(func() { put(t, place, inBrackets(right)) })
		wrong[place] = read(t, place) // as the kernel has it
	}
	r.start(t)
	if cpus := read(t, "/sys/devices/system/cpu/online"); cpus == "0\n" {
		r.wrong = slices.DeleteFunc(slices.Clone(r.wrong), func(id string) bool { return slices.Contains(r.parallel, id) })
	}
	var before []string
	testkitroot.Eventually(time.Minute, func() bool { // it may still be starting
		before = states(t, r.product, r.wrong...)
		return !slices.Contains(before, "unknown")
	})
	for i, s := range before {
		if s != "warn" && s != "fail" {
			t.Errorf("%s is %s of what is wrong", r.wrong[i], s)
		}
	}
	// A server may write its process id late.
	testkitroot.Eventually(time.Minute, func() bool { return exec.Command("sh", "-c", r.runs).Run() == nil })
	ran := sh(t, r.runs)
	fettle(t, append([]string{"fix", "--yes"}, r.wrong...)...)
	for i, s := range states(t, r.product, r.wrong...) {
		if s != "pass" {
			t.Errorf("%s is %s after fix", r.wrong[i], s)
		}
	}
	if r.runs != "" && sh(t, r.runs) != r.mended {
		t.Errorf("%s runs with %q after fix, want %q; before it was %q", r.product, sh(t, r.runs), r.mended, ran)
	}
	fettle(t, "undo")
	for place, text := range wrong {
		if now := read(t, place); now != text {
			t.Errorf("%s is not as it was before fix: %s", place, now)
		}
	}
	if now := sh(t, r.runs); now != ran {
		t.Errorf("%s ran with %q, and runs with %q after undo", r.product, ran, now)
	}
	if after := states(t, r.product, r.wrong...); !slices.Equal(after, before) {
		t.Errorf("after undo %v are %v, and were %v", r.wrong, after, before)
	}
}

func read(t *testing.T, place string) string {
	t.Helper()
	b, err := os.ReadFile(place)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func put(t *testing.T, place, text string) {
	t.Helper()
	if err := os.WriteFile(place, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// inBrackets is what is written to give a value of the kernel back: of a choice it shows
// all with the one in brackets.
func inBrackets(text string) string {
	if one, _, ok := strings.Cut(text, "]"); ok && strings.Count(text, "\n") == 1 {
		return one[strings.LastIndexByte(one, '[')+1:]
	}
	return text
}

// serves starts and ends a server with commands of the shell.
func serves(start, stop string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		sh(t, start)
		t.Cleanup(func() { sh(t, stop) })
	}
}

// as starts a program that stays in the foreground, as a user.
func as(user, program string) string {
	return "setsid setpriv --reuid=" + user + " --regid=" + user + " --init-groups " + program + " </dev/null >/dev/null 2>&1 & "
}

// answers waits for a page.
func answers(page string) string {
	return "timeout 60 sh -c 'until curl -sf " + page + "; do sleep 0.1; done'"
}

// ended ends a program of this root, and no other of its name, and waits for that.
func ended(program string) string {
	return "for p in $(pgrep -x " + program + "); do if [ /proc/$p/root/ -ef / ]; then kill $p; " + gone("$p") + "; fi; done"
}

// gone waits for the end of a process: another one may want its ports next.
func gone(pid string) string {
	return "timeout 60 sh -c 'while [ -e /proc/$0 ]; do sleep 0.05; done' " + pid
}

// sh is what a command of the shell prints.
func sh(t *testing.T, command string) string {
	t.Helper()
	c := exec.Command("sh", "-c", command)
	c.WaitDelay = 2 * time.Second // a server may keep the output open
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState.ExitCode() != 0 {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

func fettle(t *testing.T, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	if code := Main("test", args, &out, &said); code != 0 {
		t.Fatalf("fettle %s: exit %d\n%s%s", strings.Join(args, " "), code, &out, &said)
	}
	return out.String()
}

// states are what check says of some rules of a product, in their order.
func states(t *testing.T, product string, ids ...string) []string {
	t.Helper()
	var audit struct{ Findings []rule.Finding }
	if err := json.Unmarshal([]byte(fettle(t, "check", product, "--all", "-o", "json")), &audit); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, id := range ids {
		i := slices.IndexFunc(audit.Findings, func(f rule.Finding) bool { return f.ID == id })
		if i < 0 {
			t.Fatalf("check %s has no finding %s", product, id)
		}
		out = append(out, string(audit.Findings[i].State))
	}
	return out
}
