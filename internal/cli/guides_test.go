package cli

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/cliutil/size"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	internalupdate "fettle.dev/fettle/internal/update"
)

// notRun names the verbs whose examples are only parsed, and why.
var notRun = map[string]string{
	"bench":                "needs fio, pgbench, etcd or minutes",
	"confirm":              "needs a trial",
	"daemon":               "does not end",
	"import":               "needs a profile of RHEL 6",
	"load":                 "needs a server; TestExamples runs some",
	"logs puppet-reports":  "needs a report store",
	"measure-memory":       "is started by a benchmark",
	"numa balance":         "needs the processes of a real machine; TestNumaBalanceHere runs it",
	"numa run":             "starts programs that need not be here; testdata/script/numa_run.txtar runs it",
	"power":                "measures, also until Ctrl-C; testdata/script/power.txtar runs it",
	"prove":                "takes minutes",
	"quiet":                "measures for seconds; testdata/script/quiet.txtar runs it",
	"runs compare":         "needs two runs",
	"runs export":          "needs a run",
	"runs show":            "needs a run",
	"runs trend":           "needs runs",
	"schedule import-cron": "needs a crontab of tuned-adm",
	"search":               "takes minutes; testdata/script/search.txtar runs some",
	"size puppet":          "needs a Puppet Server",
}

// exitsHere has the exit codes of examples that do not succeed on the stand-in.
var exitsHere = map[string]int{
	"check kubelet --for 1.37":                1, // it has no kubelet
	"irq advise":                              1,
	"irq advise ":                             1, // it has no interrupts
	"irq advise eth0":                         1,
	"irq advise --output json > plan.json":    1,
	"irq show":                                1,
	"irq show ":                               1,
	"irq show --all --wide":                   1,
	"irq show --root sosreport --output json": 1,
	"verify throughput-performance":           3, // other examples have changed values since
	"verify --all":                            3,
}

// TestHelpExamples runs the examples of the help on a stand-in machine, with logs of the
// repository in place of the machine's. Examples of notRun are parsed by TestHelp.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	const access, router = "../../internal/logformat/testdata/real/httpd-combined_TD.log", "../../internal/logformat/testdata/real/haproxy-local.log"
	dir := t.TempDir()
	for _, name := range []string{"machine/root", "sosreport"} {
		unpack(t, "../../testdata/hosts/kvm-guest.txt", filepath.Join(dir, name))
	}
	machine := filepath.Join(dir, "machine/root")
	if err := withoutTuneD(machine); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{
		"access.log": access, "before.log": access, "after.log": access, "router.log": router,
		"var/log/httpd/access_log": access, "var/log/httpd/access_log.1": access, "var/log/haproxy.log": router,
		"my-rules.yaml": "../../examples/rules/site.yaml", "web1.txt": recordedHosts + "kvm-guest.txt", "web2.txt": recordedHosts + "debian-guest.txt",
		"monday.txt": recordedHosts + "kvm-guest.txt", "archives/web1.txt": recordedHosts + "kvm-guest.txt", "archives/web2.txt": recordedHosts + "microvm.txt",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	publisher := newPublisher(t, dir)
	publisher.publish(t, "update.zip", "1", map[string]string{"profiles/web/tuned.conf": "[sysctl]\nvm.swappiness=10\n"})
	key, err := os.ReadFile(publisher.file("release.pem"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(machine, internalupdate.KeyDir, "release.pem"), string(key))
	fettle := func(call string) (string, error) {
		cmd := exec.Command("sh", "-c", "fettle "+strings.ReplaceAll(call, " /var/log/", " "+dir+"/var/log/"))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "FETTLE_TEST_MACHINE="+machine, "HOME="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, call := range []string{
		"diff virtual-guest --output json > plan.json", "check --output json > before.json",
		"logs access.log --save web1.part", "logs access.log --save web2.part", "tune balanced",
	} {
		if out, err := fettle(call); err != nil {
			t.Fatalf("%s: %v\n%s", call, err, out)
		}
	}
	guides := maps.Clone(guides)
	maps.Copy(guides, size.Guides)
	each := len(verbs) / testkitroot.Sample(len(verbs))
	for i, v := range verbs { // in the order of the help, so that undo comes after tune
		if i%each != 0 && v.name != "check" {
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(guides)) {
			if path != v.name && !strings.HasPrefix(path, v.name+" ") || notRun[path] != "" || notRun[v.name] != "" {
				continue
			}
			for _, call := range guides[path].Calls {
				if strings.Contains(call, "--probe") {
					continue // of programs that are not here
				}
				if strings.Contains(call, "--plan plan.json") { // other examples have changed the machine
					if out, err := fettle("diff virtual-guest --output json > plan.json"); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
				}
				if path == "rules release" || path == "rules staged" {
					if out, err := fettle("rules stage update.zip"); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
				}
				if path == "eject" { // other examples have undone it
					if out, err := fettle("tune balanced"); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
				}
				if path == "fix" {
					call += " --yes"
				}
				out, err := fettle(path + " " + call)
				var exit *exec.ExitError
				if errors.As(err, &exit) && exit.ExitCode() == exitsHere[path+" "+call] {
					continue
				}
				if err != nil {
					t.Errorf("fettle %s %s: %v\n%s", path, call, err, out)
				}
			}
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
