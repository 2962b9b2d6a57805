package root

import (
	"os"
	"strings"
	"testing"
	"time"
)

// insideEnv names the test that this process runs inside a Root.
const insideEnv = "FETTLE_TEST_INSIDE"

// IsInside reports whether a test already runs inside its root.
func IsInside(t *testing.T) bool { return os.Getenv(insideEnv) == t.Name() }

// Inside runs the calling test in its own Root, as root of a machine: it starts the test binary
// again in there, where Inside returns true.
//
//	if !testroot.Inside(t, testroot.Options{Servers: true}) {
//		return
//	}
//
// Outside it returns false after that has ended; a failure inside fails the test.
func Inside(t *testing.T, o Options) bool {
	t.Helper()
	if IsInside(t) {
		return true
	}
	if strings.Contains(t.Name(), "/") {
		t.Fatal("testroot: a whole test runs inside a root, no subtest")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const program = "/usr/local/bin/inside.test"
	o.Binds = append(o.Binds, Bind{Source: self, Target: program, ReadOnly: true})
	o.Env = append(o.Env, insideEnv+"="+t.Name())
	for _, name := range []string{"FETTLE_TEST_DISPOSABLE", "FETTLE_TEST_REQUIRE", "FETTLE_TEST_NIGHTLY"} {
		if v := os.Getenv(name); v != "" {
			o.Env = append(o.Env, name+"="+v)
		}
	}
	if o.Within == 0 {
		o.Within = 20 * time.Minute
	}
	r := New(t, o)
	out, code := r.Run(program, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout="+o.Within.String())
	switch {
	case code != 0:
		t.Errorf("inside the root, exit %d:\n%s", code, out)
	case strings.Contains(out, "--- SKIP: "+t.Name()): // what is missing fails there, see Missing
		t.Skip(out)
	case !strings.Contains(out, "--- PASS: "+t.Name()):
		t.Errorf("inside the root nothing passed:\n%s", out)
	default:
		t.Log(out)
	}
	return false
}
