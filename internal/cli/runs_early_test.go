package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestRunsFailedEarly: an experiment that failed after its first block is listed so, shown without
// unknown numbers, read again from what is printed of it, and goes on.
func TestRunsFailedEarly(t *testing.T) {
	testkitroot.Real(t, "makes an experiment")
	p := newProving(t)
	text, err := os.ReadFile(p.work)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.work, append(text, "[ $n -lt 6 ] || [ -e "+p.file("mended")+" ] || exit 9\n"...), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := p.prove("--force").CombinedOutput(); err == nil || !strings.Contains(string(out), "fettle prove --resume") {
		t.Fatalf("%v: %s", err, out)
	}
	list, err := p.command("runs", "list", "--output", "json").Output()
	var l RunList
	if err != nil || json.Unmarshal(list, &l) != nil || len(l.Runs) != 1 || l.Runs[0].Blocks != 1 || !l.Runs[0].Resumable {
		t.Fatalf("%v: %s", err, list)
	}
	if out, code := p.run("runs", "list"); code != 0 || !strings.Contains(out, "failed, can be resumed") {
		t.Errorf("exit code %d: %s", code, out)
	}
	printed, err := p.command("runs", "show", l.Runs[0].Name, "--output", "json").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	file := p.file("open.json")
	if err := os.WriteFile(file, printed, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{l.Runs[0].Name, file} {
		out, code := p.run("runs", "show", of)
		for _, want := range []string{"1 of at most 80", "not known yet", "cannot tell yet"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("exit code %d, no %q: %s", code, want, out)
			}
		}
	}
	p.touch("mended")
	if out, code := p.run("prove", "--resume", "last", "--force", "--expect", "slower"); code != 3 || !strings.Contains(out, "--expect slower not met; the verdict is: faster by ") {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.restored()
}
