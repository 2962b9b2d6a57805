package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestForeignArguments: only fettle numa itself has arguments of numactl and numastat, not a command
// that contains these words.
func TestForeignArguments(t *testing.T) {
	for call, want := range map[string]string{
		"numa run -N 0 true":                          "-N 0 true",
		"--root x numa show --numastat -n":            "-n",
		"numa run --help":                             "",
		"numa show -p 1":                              "",
		"power record -- fettle numa run -N 0 true":   "",
		"power record -- fettle numa show --numastat": "",
	} {
		args := strings.Fields(call)
		ours, foreign := foreignArguments(args)
		if strings.Join(foreign, " ") != want || !slices.Equal(append(slices.Clone(ours), foreign...), args) {
			t.Errorf("%s: %q, want %q", call, foreign, want)
		}
	}
	var out, said bytes.Buffer
	if Main("test", strings.Fields("--root ../../examples/numa/four-nodes.txt numa run -N 0 true"), &out, &said); !strings.HasSuffix(said.String(), "\nfettle: for the other machine: run fettle there\n") {
		t.Errorf("said %q", said.String())
	}
}

// TestReadForLimits: a time that leaves nothing to read is refused before the machine is read.
func TestReadForLimits(t *testing.T) {
	for _, call := range []string{"numa show -p 1 --read-for 0s", "numa advise --read-for=-1s"} {
		var out, said bytes.Buffer
		if code := Main("test", strings.Fields(call), &out, &said); code != 2 || !strings.Contains(said.String(), "want 1ms to 1h") {
			t.Errorf("%s: exit %d, %s", call, code, said.String())
		}
	}
}
