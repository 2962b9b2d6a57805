package profile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// oracle is Debian's TuneD in the test root, queried through testdata/oracle/oracle.py. One process
// answers all questions of a test.
type oracle struct {
	t    testing.TB
	root *testkitroot.Root
	in   *json.Encoder
	out  *json.Decoder
	// share has the same path for TuneD and for this process.
	share string
}

func startOracle(t testing.TB) *oracle {
	t.Helper()
	dir, err := filepath.Abs("testdata/oracle")
	if err != nil {
		t.Fatal(err)
	}
	root := testkitroot.New(t, testkitroot.Options{Binds: []testkitroot.Bind{{Source: dir, Target: "/mnt", ReadOnly: true}}})
	cmd := root.Command("python3", "/mnt/oracle.py")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = testWriter{t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("oracle: %v", err)
		}
	})
	return &oracle{t, root, json.NewEncoder(stdin), json.NewDecoder(bufio.NewReader(stdout)), root.Share()}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) { w.t.Logf("oracle: %s", b); return len(b), nil }

type question struct {
	Op      string   `json:"op"`
	Machine string   `json:"machine,omitempty"` // a root directory
	Name    string   `json:"name,omitempty"`
	Args    []string `json:"args"`
	Dirs    []string `json:"dirs,omitempty"`
	Names   []string `json:"names,omitempty"`
	Before  []string `json:"before,omitempty"`
}

type oracleAnswer struct {
	Raised      string      `json:"raised"` // class of the exception that ended it
	Message     string      `json:"message"`
	Result      *string     `json:"result"`
	Functions   []string    `json:"functions"`
	Names       []string    `json:"names"`
	Units       []tunedUnit `json:"units"`
	Variables   [][2]string `json:"variables"`   // as in a script's environment
	Definitions [][2]string `json:"definitions"` // in order, unexpanded
	Main        [][2]string `json:"main"`
}

// tunedUnit is a unit as loaded by TuneD.
type tunedUnit struct {
	Name             string   `json:"name"`
	Type             string   `json:"type"`
	Priority         *string  `json:"priority"`
	Enabled          bool     `json:"enabled"`
	Devices          string   `json:"devices"`
	DevicesUdevRegex *string  `json:"devices_udev_regex"`
	CPUInfoRegex     *string  `json:"cpuinfo_regex"`
	UnameRegex       *string  `json:"uname_regex"`
	ScriptPre        *string  `json:"script_pre"`
	ScriptPost       *string  `json:"script_post"`
	Options          [][2]any `json:"options"` // name, and text or list of scripts
}

func (o *oracle) ask(q question) oracleAnswer {
	o.t.Helper()
	if q.Op == "call" && q.Args == nil {
		q.Args = []string{}
	}
	if err := o.in.Encode(q); err != nil {
		o.t.Fatalf("oracle: %v", err)
	}
	var a oracleAnswer
	if err := o.out.Decode(&a); err != nil {
		o.t.Fatalf("oracle: no answer to %+v: %v", q, err)
	}
	return a
}

// machine creates a simulated machine that TuneD and fettle both read.
func (o *oracle) machine(name string, files map[string]string) (dir string, h *host.Host) {
	o.t.Helper()
	dir = filepath.Join(o.share, name)
	machine.Write(o.t, dir, files)
	return dir, host.Mounted(dir)
}

// rootExec runs programs inside the test root, as TuneD's functions do.
type rootExec struct{ root *testkitroot.Root }

func (e rootExec) LookPath(name string) (string, error) { return name, nil }

func (e rootExec) Run(_ context.Context, c host.Command) (host.Result, error) {
	out, err := e.root.Command(c.Argv...).Output()
	res := host.Result{Stdout: out}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		res.ExitCode, res.Stderr, err = exit.ExitCode(), exit.Stderr, nil
	}
	return res, err
}
