package profile

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// askTuned prints TuneD's present recommendation for each line on standard input.
const askTuned = `
import logging, sys
import tuned.logs
tuned.logs.get()
logging.disable(logging.CRITICAL)
from tuned.utils.profile_recommender import ProfileRecommender
for line in sys.stdin:
    print(ProfileRecommender().recommend(), flush=True)
`

// TestRecommendAgainstTuned queries Debian's TuneD and fettle about the same machine with the same
// generated rules.
func TestRecommendAgainstTuned(t *testing.T) {
	testkitroot.Real(t, "enters the test root and asks TuneD 400 times")
	requireRoot(t)
	root := testkitroot.New(t, testkitroot.Options{Stubs: map[string]string{"virt-what": "cat /etc/virt"}})
	h := host.Mounted(root.Path("/"))
	h.Exec = rootExec{root}
	tuned := root.Command("python3", "-c", askTuned)
	in, err := tuned.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := tuned.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	tuned.Stderr = os.Stderr
	if err := tuned.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := tuned.Wait(); err != nil {
			t.Error(err)
		}
	}()
	answers := bufio.NewScanner(out)

	r := rand.New(rand.NewPCG(2, 16))
	write := func(name, text string) { machine.WriteFile(t, root.Path("/"), name, text) }
	seen := map[string]int{}
	for i := range 400 {
		write("/etc/virt", pick(r, []string{"", "kvm\n", "hyperv\nazure\n"}))
		write("/etc/system-release-cpe", pick(r, []string{"", "cpe:/o:redhat:enterprise_linux:9::server\n", "cpe:/o:x:y\n"}))
		write("/etc/role", pick(r, []string{"", "db\nweb\n"}))
		var files []string
		for _, name := range []string{recommendConf, "/usr/lib/tuned/recommend.d/50-tuned.conf", "/etc/tuned/recommend.d/50-tuned.conf", "/etc/tuned/recommend.d/40-mine.conf"} {
			if err := os.RemoveAll(root.Path(name)); err != nil {
				t.Fatal(err)
			}
			if r.IntN(3) == 0 {
				text := randomRules(r)
				write(name, text)
				files = append(files, name+":\n"+text)
			}
		}
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("TuneD gave no answer: %v", answers.Err())
		}
		got, err := (&Loader{Host: h, Execute: true}).Recommend(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if want := answers.Text(); got.Profile != want || len(got.Unknown) > 0 {
			t.Errorf("case %d: fettle %s %v, TuneD %s\n%s", i, got.Profile, got.Unknown, want, strings.Join(files, "\n"))
		}
		seen[got.Profile]++
	}
	// A comparison of "balanced" with "balanced" would prove nothing.
	if len(seen) < 5 || seen[DefaultProfile] > 300 {
		t.Errorf("the rules are too dull: %v", seen)
	}
}

func randomRules(r *rand.Rand) string {
	conditions := []string{
		"virt=", "virt=.+", "virt=kvm", "virt=.*azure", "virt=azure", "system=", "system=.*server.*", "system=server", "system=cpe.*",
		"/etc/role=", "/etc/role=.*web", "/etc/role=db$", "/etc/role=db.web", "/etc/nope=", "process=.*", "process1=py.*", "process2=nothing",
		"chassis_type=", "chassis_type=Notebook", "syspurpose_role=", "unknown=x", "virt=kvm # comment", "virt=k\n  v",
	}
	var b strings.Builder
	for range 1 + r.IntN(4) {
		fmt.Fprintf(&b, "[%s]\n", pick(r, []string{"alpha", "beta", "gamma,1", "gamma,2", "delta,a,b", "alpha"}))
		for range r.IntN(4) {
			b.WriteString(pick(r, conditions) + "\n")
		}
	}
	if r.IntN(8) == 0 {
		b.WriteString(pick(r, []string{"[DEFAULT]\nvirt=.+\n", "; comment\n"}))
	}
	return b.String()
}
