package scenarios

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// hostRecords creates the host records t-000001 and so on, as a run without consumers has them.
func hostRecords(t *testing.T, hosts int) {
	t.Helper()
	for n := range hosts {
		if status, text := call(t, "POST", foremanURL+"/api/v2/hosts", fmt.Sprintf(`{"host": {"name": "t-%06d"}}`, n+1)); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
	}
}

// TestPull runs a job on hosts that mosquitto notifies: 50, and 1,000 at night.
func TestPull(t *testing.T) {
	t.Parallel()
	if !inside(t, nil) {
		return
	}
	hosts := 50
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		hosts = 1000
	}
	database(t)
	broker(t)
	foreman(t, puma{2, 5, 5})
	hostRecords(t, hosts)
	x := run(t, "remote-execution-pull", "--server", "foreman="+foremanURL, "--server", "capsule="+foremanURL, "--server", "broker="+brokerURL,
		"--organization", "Default", "--prefix", "t-", "--hosts", fmt.Sprint(hosts))
	if x.StandIn != "foreman" || x.Whole.Runs != int64(hosts) {
		t.Errorf("%q, %+v", x.StandIn, x.Whole)
	}
	if got := product.SQL(t, "foreman", "SELECT count(*) || ' ' || sum(fetched) || ' ' || count(*) FILTER (WHERE exit_code = 0 AND output <> '') FROM jobs"); got != fmt.Sprintf("%[1]d %[1]d %[1]d", hosts) {
		t.Errorf("jobs, fetched, ended: %s", got)
	}
}

// sshd starts Debian's sshd, and makes ssh connect to it under each name that begins with t-.
func sshd(t *testing.T) {
	t.Helper()
	machine.Write(t, "/", map[string]string{
		"/root/sshd.conf": "Port 2222\nListenAddress 127.0.0.1\nHostKey /root/.ssh/host\nAuthorizedKeysFile /root/.ssh/login.pub\nPidFile none\nMaxStartups 100\nMaxSessions 100\n",
		"/root/.ssh/config": "Host t-*\nHostName 127.0.0.1\nPort 2222\nUser root\nIdentityFile /root/.ssh/login\n" +
			"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
	})
	product.Command(t, "sh", "-euc", `umask 077
mkdir -p /run/sshd
chmod 700 /root/.ssh
for key in login host; do ssh-keygen -q -t ed25519 -N "" -f /root/.ssh/$key; done`)
	start(t, "setpriv", "--pdeathsig=KILL", "/usr/sbin/sshd", "-D", "-e", "-f", "/root/sshd.conf")
	listens(t, "2222")
}

// TestSSH runs a script over real ssh.
func TestSSH(t *testing.T) {
	t.Parallel()
	if !inside(t, nil) {
		return
	}
	sshd(t)
	args := []string{"remote-execution-ssh", "--prefix", "t-", "--hosts", "10"}
	fettle[struct{}](t, 4, args...) // commands are not allowed
	args = append(args, "--allow-commands")
	fettle[struct{}](t, 4, args...) // a command may reach any machine
	run(t, append(args, "--organization", "Default", "--most-hosts", "10")...)
	if left, err := filepath.Glob("/tmp/tmp.*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestAnsible runs a task by real Ansible over real ssh.
func TestAnsible(t *testing.T) {
	t.Parallel()
	if !inside(t, func(o *root.Options) {
		out, err := exec.Command("../ansible/build").Output()
		if err != nil {
			root.Missing(t, "test/ansible/build installs Ansible from PyPI with python3 and its venv: %v", err)
		}
		bin := strings.TrimSpace(string(out))
		site, err := filepath.Glob(filepath.Dir(bin) + "/lib/python3.*/site-packages")
		if err != nil || len(site) != 1 {
			t.Fatalf("%v %v", site, err)
		}
		python := filepath.Base(filepath.Dir(site[0]))
		if _, err := os.Stat(filepath.Join(root.Servers(t), "usr/bin", python)); err != nil {
			root.Missing(t, "Ansible was installed for %s, which the root with the servers does not have", python)
		}
		o.Binds = append(o.Binds, root.Bind{Source: filepath.Dir(bin), Target: "/opt/ansible", ReadOnly: true})
		o.Files = map[string]string{"/usr/local/bin/ansible": "#!/bin/sh\nexport PYTHONPATH=/opt/ansible/lib/" + python + "/site-packages\nexec python3 /opt/ansible/bin/ansible \"$@\"\n"}
	}) {
		return
	}
	sshd(t)
	run(t, "remote-execution-ansible", "--allow-commands", "--organization", "Default", "--prefix", "t-", "--most-hosts", "2", "--hosts", "2")
}
