package cli

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/testkit/calls"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// aCommand is what a refusal has to print: a verb of ours, or a program of the system.
var aCommand = internaltext.LazyRegexp(`\bfettle [a-z]|\b(kubectl|etcdctl|systemctl|systemd-run|sudo|chmod|chown|mv|rm|df|free|kill) `)

// withoutLiteral are the hints that a function or a variable has, and what it holds.
var withoutLiteral = map[string]string{
	"hint":              "the commands of logs --format, one for each choice",
	"refused.Hint":      "kube/load",
	"kindsHint":         "kubectl apply",
	"asBegun(recorded)": "fettle tune --set",
	"p.advice(":         "kubectl debug node",
	"unguarded":         "systemctl enable",
	"onThatMachine(":    "fettle prove --resume",
}

// Each refusal in the code of both programs names a command: one that is added without
// one fails here, whether or not a test can provoke it.
func TestRefusalsInSource(t *testing.T) {
	files, read := token.NewFileSet(), 0
	for _, root := range []string{"..", "../../kube"} {
		err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(files, name, nil, 0)
			if err != nil {
				return err
			}
			read++
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if wrong := commandless(call); wrong != "" {
						t.Errorf("%s: %s", files.Position(call.Pos()), wrong)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 500 {
		t.Errorf("read %d files: this test looks at the wrong directories", read)
	}
}

// commandless says what a call that makes a refusal lacks; "" is nothing.
func commandless(call *ast.CallExpr) string {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	if len(call.Args) < 2 || name != "Exit" && name != "Hinted" {
		return ""
	}
	if code := exprText(call.Args[0]); code != "ui.Refused" && code != "ui.Busy" && code != "Refused" && code != "Busy" {
		return ""
	}
	if name == "Exit" {
		return "a refusal without a command: ui.Retry, ui.Instead and ui.AsRoot print the call that works, ui.Hinted another command"
	}
	if aCommand().MatchString(literals(call.Args[2])) {
		return ""
	}
	for hint := range withoutLiteral {
		if strings.HasPrefix(exprText(call.Args[2]), hint) {
			return ""
		}
	}
	return fmt.Sprintf("the hint %s has no command", exprText(call.Args[2]))
}

// literals are the texts of an expression, one after another.
func literals(e ast.Expr) string {
	var b strings.Builder
	ast.Inspect(e, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			b.WriteString(strings.Trim(l.Value, "`\"") + " ")
		}
		return true
	})
	return b.String()
}

func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return exprText(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		var args []string
		for _, a := range e.Args {
			args = append(args, exprText(a))
		}
		return exprText(e.Fun) + "(" + strings.Join(args, ", ") + ")"
	}
	return fmt.Sprintf("%T", e)
}

// Refusals that take neither root nor a network, each with the command that it prints. The
// commands that are fettle's are parsed; those of safe refusals are run, and work.
func TestRefusalsPrintACommand(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	state := filepath.Join(dir, "state")
	foreign := filepath.Join(dir, "foreign")
	if err := os.MkdirAll(filepath.Join(foreign, "etc/foreman-installer"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("foreign/etc/foreman-installer/custom-hiera.yaml", "not: ours\n")
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	log := write("access.log", strings.Repeat("192.0.2.1 - - [21/Nov/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"a\" 17\n", 9))
	combined := write("combined.log", strings.Repeat("192.0.2.1 - - [21/Nov/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"a\"\n", 9))
	other := write("other.txt", "a text\n")
	for _, c := range []struct {
		words string // {name} is a file of the test's own
		code  int
		says  string // the command, as a regular expression
		works bool   // it is run, and its exit code is 0
	}{
		{"size satellite", ui.Usage, `size satellite --hosts=\d+`, true},
		{"size satellite --hosts abc", ui.Usage, `size satellite --hosts=12k`, true},
		{"size satellite --hosts 100 --ram 64", ui.Usage, `--hosts 100 --ram=64GiB`, true},
		{"bench memory --size 64", ui.Usage, `bench memory --size=64MiB`, false},
		{"size postgresql --root /nowhere", ui.Usage, `size postgresql --connections=200\n`, false},
		{"size satellite --hosts 12000 --cpus 2 --ram 4GiB", ui.Usage, `--hosts 12000 --cpus=16 --ram=64GiB`, true},
		{"size satellite --hosts 3000 --mqtt-hosts 4000", ui.Usage, `--mqtt-hosts=3000`, true},
		{"size satellite --hosts 3000 --mqtt-rate-limit 100", ui.Usage, `--mqtt-rate-limit 100 --mqtt-hosts=3000`, true},
		{"size satellite --hosts 3000 --disk 10GB", ui.Usage, `--disk=\d+GB`, true},
		{"size openshift --pods 500 --cpu-manager static --max-unavailable 3", ui.Usage, `--cpu-manager static --max-unavailable=1`, true},
		{"size openshift --pods 2200 --host-prefix=26", ui.Usage, `--host-prefix=23`, true},
		{"size openshift --pods 2200 --cluster-cidr 10.0.0.0/22", ui.Usage, `--cluster-cidr=10\.128\.0\.0/14`, true},
		{"size openshift --pods 2200 --version 4.20 --network-type OpenShiftSDN", ui.Usage, `--network-type=OVNKubernetes`, true},
		{"size openshift --pods 2200 --pods-per-core 400", ui.Usage, `--pods-per-core=250`, true},
		{"size openshift --pods 2200 --max-unhealthy 100%", ui.Usage, `--max-unhealthy=40%`, true},
		{"size openshift --pods 2200 --kube-api-qps 300", ui.Usage, `--kube-api-burst=300`, true},
		{"size postgresql --connections 20000 --ram 2GiB --cpus 2", ui.Usage, `--ram=\d+GiB`, true},
		{"size openshift --pods 500 --cluster-cidr 172.30.0.0/15", ui.Usage, `--cluster-cidr=10\.2\.0\.0/15`, true},
		{"size openshift --pods 500 --machine-cidr 10.128.0.0/16 --cluster-cidr 10.128.0.0/14", ui.Usage, `--(cluster|machine)-cidr=\S+`, true},
		{"size openshift --pods 500 --machine-cidr 192.168.1.0/30", ui.Usage, `--machine-cidr=10\.0\.\d+\.\d+/28`, true},
		{"size openshift --pods 500 --service-cidr 172.30.0.0/28 --services 1000", ui.Usage, `--service-cidr=\S+/22`, true},
		{"size openshift --pods 500 --cluster-cidr 10.128.1.0/14", ui.Usage, `--cluster-cidr=10\.128\.0\.0/14`, true},
		{"size openshift --pods 500 --version 3.11", ui.Usage, `--version=4\.\d+`, true},
		{"size openshift --pods 500 --version 4.6 --network-type OVNKubernetes --ipsec", ui.Usage, `--ipsec --version=4.7`, true},
		{"size openshift --pods 500 --pods-per-node 9", ui.Usage, `--pods-per-node=250`, true},
		{"size openshift --pods 500 --cpu-manager sttic", ui.Usage, `--cpu-manager=static`, true},
		{"size satellite --hosts 10 --capsule a,hosts=20 --capsule b,hosts=5", ui.Usage, `--capsule a,hosts=20 --capsule b,hosts=5 --hosts=25`, true},
		{"size satellite --hosts 1000 --capsule a,downloads=5001 --capsule b", ui.Usage, `--hosts 1000 --capsule=a,downloads=1000 --capsule=b`, true},
		{"size satellite --hosts -1", ui.Usage, `size satellite --hosts=12k\n`, true},
		{"size satellite --hosts 99999999", ui.Usage, `--hosts=250000`, true},
		{"size network --mtu 577", ui.Usage, `--mtu=\d+`, true},
		{"size hugepages --size 16GiB --ram 8GiB", ui.Usage, `--ram=17GiB`, true},
		{"size puppet --cpus 4 --ram 8GiB", ui.Usage, `--log=/var/log/puppetlabs/puppetserver/puppetserver-access.log`, false},
		{"size satellite --hosts 3000 --write {foreign}", ui.Refused, `--write \S+ --force`, true},
		{"tune --set file:/etc/passwd=1", ui.Refused, ``, false}, // no command can: the sentence says which places there are
		{"tune --set vm.swappiness=1 --window 00:00-00:00", ui.Usage, `fettle \S+ \S+ tune --set vm.swappiness=1 --window=22:00-04:00`, false},
		{"history --state-dir {open}", ui.Refused, `chmod 0700 \S+/open`, false},
		{"history --state-dir {open}", ui.Refused, `fettle history --state-dir=\S+/fettle`, false},
		{"logs {access.log}", ui.Refused, `fettle logs \S+access.log --format \S+`, true},
		{"logs {combined.log} --since-last {other.txt}", ui.Refused, `--since-last=\S+other.txt.positions`, true},
		{"logs {combined.log} --save {other.txt}", ui.Refused, `mv \S+other.txt \S+other.txt.old`, false},
		{"load http --rate 1/s http://192.0.2.1/", ui.Refused, `--allow=192.0.2.1`, false},
		{"fix --root ../../testdata/hosts/kvm-guest.txt", ui.Usage, `--write DIR`, false},
		{"prove -- true", ui.Usage, `prove --set=vm.swappiness=10 -- true`, false},
		{"tune", ui.Usage, `tune [a-z-]+\n`, false},
		{"size openshift --pods 500 --node-cores 1 --node-ram 1", ui.Usage, `--pods 500 --node-(cores|ram)=`, true},
		{"size satellite --hosts 500 --ram 1GiB --cpus 4", ui.Usage, `--ram=\S+`, true},
		{"size openshift --pods 500 --storage file", ui.Usage, `--storage=block,file,object`, true},
		{"size satellite --hosts 1000 --capsule a,foo=1", ui.Usage, `--hosts 1000 --capsule=a\n`, true},
		{"size katello", ui.Usage, `size satellite --hosts=12000\n`, false},
		{"check katello --root ../../testdata/hosts/kvm-guest.txt", ui.Usage, `run: fettle .* check satellite --root`, false},
		{"check HAProxy --root ../../testdata/hosts/kvm-guest.txt", ui.Usage, `run: fettle .* check haproxy --root`, false},
		{"check zzz --root ../../testdata/hosts/kvm-guest.txt", ui.Usage, `for example: fettle .* check linux --root`, false},
		{"check t18 --root ../../testdata/hosts/kvm-guest.txt", ui.Usage, `run: fettle .* check --explain=T18 --root`, true},
		{"check linux T18", ui.Usage, `run: fettle .* check linux --explain=T18\n`, false},
		{"check --explain t18 --root ../../testdata/hosts/kvm-guest.txt", ui.Usage, `run: fettle .* check --root \S+ --explain=T18\n`, true},
		{"check --fail-on zzz", ui.Usage, `for example: fettle .* check --fail-on=fail\n`, false},
		{"logs {access.log} --unit zzz --top 3", ui.Usage, `for example: fettle .* --unit=ms --top 3\n`, false},
		{"logs {access.log} --sort zzz", ui.Usage, `run: fettle .* --sort=total\n`, false},
		{"logs {access.log} --duration tok", ui.Usage, `for example: fettle .* --duration tok --unit=ms\n`, false},
		{"logs {access.log} --format zzz --top 3", ui.Usage, `run: fettle .* logs \S+ --top 3\n`, false},
		{"logs {access.log} --format combind --top 3", ui.Usage, `run: fettle .* --top 3 --format=combined\n`, false},
		{"load http http://localhost:1 --replay {combined.log} --replay-format combind", ui.Usage, `run: fettle .* --replay-format=combined\n`, false},
		{"logs {other.txt}", ui.Failed, `fettle logs \S+other.txt --format \S+`, false},
		{"bench memory --size 1EiB", ui.Refused, `leave out --size`, false},
		{"bench disk --size 1EiB {foreign}", ui.Refused, `bench disk \S+ --size=\d+MiB`, false},
		{"diff --sysctl throughput-performance --root ../../testdata/hosts/kvm-guest.txt", ui.Refused, `fettle .*tune throughput-performance`, false},
	} {
		words := strings.Fields(strings.NewReplacer("{access.log}", log, "{combined.log}", combined, "{other.txt}", other, "{foreign}", foreign, "{open}", open).Replace(c.words))
		if words[0] != "history" {
			words = append([]string{"--state-dir", state}, words...)
		}
		if words[2] == "bench" && words[3] == "disk" {
			if _, err := exec.LookPath("fio"); err != nil {
				continue
			}
		}
		var out, said bytes.Buffer
		code := Main("test", words, &out, &said)
		if os.Geteuid() != 0 && code == ui.Refused && strings.Contains(said.String(), "run: sudo fettle ") {
			continue // a verb of root's
		}
		if code != c.code {
			t.Errorf("%s: exit code %d, not %d: %s", c.words, code, c.code, said.String())
			continue
		}
		command := regexp.MustCompile(c.says).FindString(said.String())
		if command == "" && c.says != "" {
			t.Errorf("%s: no command like %s: %s", c.words, c.says, said.String())
			continue
		}
		for line := range strings.Lines(said.String()) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "fettle: ")
			line, _, _ = strings.Cut(strings.TrimPrefix(line, "run: "), "  # ")
			if at := strings.Index(line, "fettle "); at >= 0 && strings.Contains(line, command) && command != "" && c.code == ui.Refused || strings.HasPrefix(line, "fettle ") {
				parses(t, c.words, line[at:], c.works)
			}
		}
	}
}

// parses looks whether a printed command is one that fettle has, and runs it where it is to
// work.
func parses(t *testing.T, of, line string, works bool) {
	t.Helper()
	words := calls.Split(strings.TrimPrefix(line, "fettle "))
	if words == nil {
		return // words of a sentence, not a shell command: its quotes need no partner
	}
	if works {
		var out, said bytes.Buffer
		if code := Main("test", words, &out, &said); code != 0 {
			t.Errorf("%s: %q was printed, and ends with %d: %s", of, line, code, said.String())
		}
		return
	}
	a := &app{system: thisSystem(), screen: ui.NewScreen(&bytes.Buffer{}, &bytes.Buffer{})}
	verb, rest, err := a.rootCommand().Find(words)
	if err != nil || verb.Parent() == nil {
		t.Errorf("%s: %q was printed, which is not a verb: %v", of, line, err)
		return
	}
	for _, w := range rest {
		name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		if w == "--" {
			return
		}
		if strings.HasPrefix(w, "--") && name != "help" && verb.Flag(name) == nil {
			t.Errorf("%s: %q was printed, and %s has no option %s", of, line, verb.CommandPath(), w)
		}
	}
}

// What holds the journal is not waited for, and the call is printed to be made again.
func TestBusyPrintsTheCall(t *testing.T) {
	testkitroot.Rights(t)
	state := t.TempDir()
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Lock(state, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var out, said bytes.Buffer
	if code := Main("test", []string{"--state-dir", state, "undo"}, &out, &said); code != ui.Busy || !strings.Contains(said.String(), "run again: fettle --state-dir "+state+" undo") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}
