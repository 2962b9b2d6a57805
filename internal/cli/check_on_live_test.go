package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// A server of OpenSSH that knows no passwords; its files are below /root/ssh.
const serverConfig = `HostKey /root/ssh/%[1]s
PidFile /run/sshd/%[1]s.pid
AuthorizedKeysFile /root/.ssh/login.pub
AuthenticationMethods publickey
UsePAM no
ListenAddress %[2]s
`

// The hosts of the client, and what there is wrong with them: of two values ssh
// takes the first.
const clientConfig = `Host one bare stranger changed
  HostName 127.0.0.1
Host two locked closed
  HostName 127.0.0.2
Host one
  Port 2201
Host two
  Port 2202
Host bare
  Port 2203
Host stranger
  Port 2201
  UserKnownHostsFile ~/.ssh/no_hosts
Host changed
  Port 2201
  UserKnownHostsFile ~/.ssh/changed_hosts
Host locked
  Port 2202
  PubkeyAuthentication no
Host closed
  Port 2204
Host *
  IdentityFile ~/.ssh/login
  IdentitiesOnly yes
  UserKnownHostsFile ~/.ssh/known_hosts
  GlobalKnownHostsFile none
`

// Two real servers of ssh, each with a key of its own, run the real program: one
// audits the machine, the other a copy of another one.
func TestCheckOnServers(t *testing.T) {
	testkitroot.Real(t, "starts servers")
	testkitroot.Undisturbed(t) // it compares what this machine has now with what it had
	const other = "/srv/other.txt"
	r := testkitroot.New(t, testkitroot.Options{
		Servers: true,
		Binds: []testkitroot.Bind{
			{Source: testkitroot.Program(t, "./cmd/fettle"), Target: "/usr/bin/fettle", ReadOnly: true},
			{Source: filepath.Join(testkitroot.Module(t), "testdata/hosts/debian-guest.txt"), Target: other, ReadOnly: true},
		},
		Files: map[string]string{
			"/root/.ssh/config": clientConfig,
			"/root/ssh/one.conf": fmt.Sprintf(serverConfig, "one", "127.0.0.1:2201") +
				"ListenAddress 127.0.0.1:2203\nMatch LocalPort 2203\nSetEnv PATH=/nowhere\n",
			"/root/ssh/two.conf": fmt.Sprintf(serverConfig, "two", "127.0.0.2:2202") +
				"ForceCommand $SSH_ORIGINAL_COMMAND --root " + other + "\n",
			// The kernel's settings are read only in here, so this is not in force.
			"/etc/sysctl.d/90-ours.conf": "vm.swappiness = 137\n",
		},
	})
	r.Must("sh", "-euc", `umask 077
mkdir -p /run/sshd
chmod 700 /root/.ssh
ssh-keygen -q -t ed25519 -N "" -f /root/.ssh/login
for name in one two; do ssh-keygen -q -t ed25519 -N "" -f /root/ssh/$name; done
{ echo "[127.0.0.1]:2201,[127.0.0.1]:2203 $(cat /root/ssh/one.pub)"
  echo "[127.0.0.2]:2202 $(cat /root/ssh/two.pub)"; } >/root/.ssh/known_hosts
echo "[127.0.0.1]:2201 $(cat /root/ssh/two.pub)" >/root/.ssh/changed_hosts`)
	for _, name := range []string{"one", "two"} {
		d := r.Start("/usr/sbin/sshd", "-D", "-e", "-f", "/root/ssh/"+name+".conf")
		// sshd(8) writes the file once it listens.
		t.Cleanup(func() {
			d.Signal("TERM")
			if t.Failed() {
				t.Logf("sshd %s:\n%s", name, d.Output())
			}
		})
		listens := testkitroot.Eventually(time.Minute, func() bool {
			_, err := os.Stat(r.Path("/run/sshd/" + name + ".pid"))
			return err == nil || !d.Running()
		})
		if !listens || !d.Running() {
			t.Fatalf("sshd %s does not listen", name)
		}
	}

	t.Run("both", func(t *testing.T) {
		fleet, _ := askHosts(t, r, 0, "ssh:one,ssh:root@two")
		one, two := answerOf(t, fleet, "one"), answerOf(t, fleet, "root@two")
		var direct findings.Audit
		text, _ := fettleIn(t, r, 0, "check", "linux", "--root", other, "--output", "json")
		if err := json.Unmarshal([]byte(text), &direct); err != nil {
			t.Fatal(err)
		}
		if got, want := findingWords(two), findingWords(&direct); !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("two's findings are %v, and of the same machine without ssh %v", got, want)
		}
		if got, want := ids(one), ids(two); !slices.Equal(got, want) {
			t.Errorf("one was asked %v, and two %v", got, want)
		}
		i := slices.IndexFunc(fleet.Differ, func(d findings.Difference) bool { return d.ID == "T19" && d.Instance == "vm.swappiness" })
		if i < 0 {
			t.Fatalf("that vm.swappiness differs is not said: %+v", fleet.Differ)
		}
		d := fleet.Differ[i]
		if d.States["one"] != rule.Warned || d.States["root@two"] == rule.Warned || d.Measured["one"] == "" {
			t.Errorf("vm.swappiness: %+v", d)
		}
	})
	t.Run("some cannot be asked", func(t *testing.T) {
		wrong := []struct {
			host string
			says []string
		}{
			{"stranger", []string{"ssh: Host key verification failed.", "host key is known for [127.0.0.1]:2201"}},
			{"changed", []string{"ssh: Host key verification failed.", "/root/.ssh/changed_hosts:1", "Host key for [127.0.0.1]:2201 has changed"}},
			{"locked", []string{"Permission denied (publickey)"}},
			{"closed", []string{"ssh: connect to host 127.0.0.2 port 2204: Connection refused"}},
			{"bare", []string{"fettle is not in the PATH of ssh sessions on that host"}},
		}
		on := "ssh:two"
		for _, c := range wrong {
			on += ",ssh:" + c.host
		}
		fleet, said := askHosts(t, r, 1, on)
		answerOf(t, fleet, "two")
		if len(fleet.Differ) > 0 {
			t.Errorf("two has answered alone: %+v", fleet.Differ)
		}
		for i, c := range wrong {
			h := fleet.Hosts[i+1]
			if h.Host != c.host || h.Audit != nil {
				t.Errorf("%s has an audit, or is not where it was named: %+v", c.host, h)
			}
			for _, want := range c.says {
				if !strings.Contains(h.Error, want) || strings.Contains(h.Error, "ssh: ssh: ") {
					t.Errorf("%s: %q does not say %q", c.host, h.Error, want)
				}
			}
			if !strings.Contains(said, c.host+": "+h.Error) {
				t.Errorf("stderr does not say %q of %s:\n%s", h.Error, c.host, said)
			}
		}
	})
}

// askHosts checks hosts and holds the answer against its schema.
func askHosts(t *testing.T, r *testkitroot.Root, code int, on string) (*findings.Fleet, string) {
	t.Helper()
	text, said := fettleIn(t, r, code, "check", "linux", "--on", on, "--output", "json")
	if err := validate([]byte(text)); err != nil {
		t.Error(err)
	}
	var fleet findings.Fleet
	if err := json.Unmarshal([]byte(text), &fleet); err != nil {
		t.Fatal(err)
	}
	if got, want := len(fleet.Hosts), 1+strings.Count(on, ","); got != want {
		t.Fatalf("%d hosts, want %d", got, want)
	}
	return &fleet, said
}

// fettleIn runs the program in a root.
func fettleIn(t *testing.T, r *testkitroot.Root, code int, args ...string) (out, said string) {
	t.Helper()
	c := r.Command(append([]string{"/usr/bin/fettle"}, args...)...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != code {
		t.Fatalf("fettle %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

func answerOf(t *testing.T, fleet *findings.Fleet, host string) *findings.Audit {
	t.Helper()
	i := slices.IndexFunc(fleet.Hosts, func(h findings.Asked) bool { return h.Host == host })
	if i < 0 || fleet.Hosts[i].Audit == nil {
		t.Fatalf("no audit of %s: %+v", host, fleet.Hosts)
	}
	a := fleet.Hosts[i].Audit
	if a.Machine != host || len(a.Findings) == 0 {
		t.Errorf("the audit of %s is of %s, with %d findings", host, a.Machine, len(a.Findings))
	}
	return a
}

// findingWords are the findings of an audit in one word each.
func findingWords(a *findings.Audit) []string {
	var out []string
	for _, f := range a.Findings {
		out = append(out, fmt.Sprintf("%s %s %s %v", f.ID, f.Instance, f.State, f.Measured))
	}
	return out
}

// ids are the rules that an audit has asked, each once.
func ids(a *findings.Audit) []string {
	var out []string
	for _, f := range a.Findings {
		out = append(out, f.ID)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
