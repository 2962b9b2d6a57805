package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/ui"
)

// inputs are arguments of each verb that reads a cluster or a file. CLUSTER, FILE and DIR stand for
// the input; a verb without CLUSTER reads no cluster before its files.
var inputs = []string{
	"status CLUSTER", "status CLUSTER --file FILE", "check CLUSTER", "check --root DIR", "health CLUSTER", "kubelet plan FILE CLUSTER",
	"scale plan a --to 3 CLUSTER", "scale execute a --to 3 --yes CLUSTER",
	"load plan FILE CLUSTER", "load plan CLUSTER", "load run FILE CLUSTER", "load mirror --write new CLUSTER", "load undo a --state-dir DIR", "load resume a --state-dir DIR",
	"load http http://web:80/ --allow web:80 --image i --rate 5/s CLUSTER", "load http https://web/ --allow web:443 --image i --rate 5/s --cert FILE --key FILE",
	"load scenario example --image i --scenario-server web=http://web --allow web:80 CLUSTER", "load scenario FILE --image i", "load scenario example --image i --scenario-server web=https://web --allow web:443 --cert FILE --key FILE", "load scenario undo a --image i --state-dir DIR",
	"logs a --claim c --image i CLUSTER", "logs a --claim c --image i --save DIR/none/a",
	"load status --state-dir DIR", "load compare a b --state-dir DIR",
	"pod verify x --root NODE CLUSTER", "pod verify x --root DIR CLUSTER", "pod explain FILE --root NODE CLUSTER", "pod explain FILE --state DIR", "pod explain POD --state DIR", "pod record new --root NODE CLUSTER", "pod record new --root DIR CLUSTER",
	"uninstall --yes CLUSTER", "operator CLUSTER", "agent --node a --root DIR CLUSTER",
	"size httpd --log FILE", "size openshift --apps FILE", "schema FILE",
}

// goWords matches what messages for people do not contain: words of Go and its libraries, and
// failures of formatting.
var goWords = regexp.MustCompile(`exec: |lookup |dial tcp|net/http|json: |[^.]yaml: |unmarshal|&\{|%!|<nil>|map\[|restmapping|0x[0-9a-f]{8}|\*v1\.|\b(stat|open|read|lstat) /`)

// TestWrongInputs: for each wrong input each verb ends with a code other than 0, says what is wrong
// with which input and what to do, in no words of Go.
func TestWrongInputs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	config := func(server string) string {
		return write(strings.NewReplacer("/", "", ":", "").Replace(server)+".conf", fmt.Sprintf("{current-context: here, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: here, context: {cluster: c}}]}", server))
	}
	mute, garbage := answering(t, ""), answering(t, "hello\r\n")
	unlike := answering(t, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")
	pod, node := write("pod.yaml", nextPod), vm(t)
	missing, bad := filepath.Join(dir, "missing"), write("bad.yaml", "a: 1\nb: [c\n")
	version, binary := write("version.yaml", "apiVersion: v9\nkind: Pod\nmetadata: {name: a}\n"), write("binary.yaml", "a: 1\n\xff\xfe\x00\n")
	empty := write("empty.yaml", "")
	clusters := map[string]string{
		"no cluster": "", "a missing kubeconfig": missing, "a directory as kubeconfig": dir, "a kubeconfig that is not YAML": bad, "another file as kubeconfig": version, "a binary kubeconfig": binary, "an empty kubeconfig": empty,
		"a server that is away": config("https://127.0.0.1:1"), "an unknown name": config("https://no-such-host.invalid:6443"),
		"a server that does not answer": config(mute), "a server that speaks no HTTP": config(garbage), "a server of another kind": config(unlike),
	}
	for what, cluster := range clusters {
		for _, call := range inputs {
			if !strings.Contains(call, "CLUSTER") {
				continue
			}
			file := pod
			switch {
			case strings.HasPrefix(call, "load"):
				file = "../../examples/kubernetes/load.yaml"
			case strings.HasPrefix(call, "kubelet"):
				file = write("kubelet.yaml", maxPodsConfig)
			case strings.HasPrefix(call, "status"):
				file = write("tuned.yaml", tunedOf)
			}
			if strings.Contains(call, "DIR") || cluster == "" && strings.HasPrefix(call, "load plan") { // offline
				continue
			}
			option := "--request-timeout=100ms"
			if cluster != "" {
				option += " --kubeconfig=" + cluster
			}
			wrong(t, what, strings.NewReplacer("CLUSTER", option, "FILE", file, "NODE", node, "new", filepath.Join(dir, "new")).Replace(call), "")
		}
	}
	for what, file := range map[string]string{"a missing file": missing, "a file that is not YAML": bad, "another version": version, "a binary file": binary, "an empty file": empty, "a directory": t.TempDir()} {
		for _, call := range inputs {
			isDir := strings.Contains(call, "DIR") && what != "another version"
			if !isDir && (!strings.Contains(call, "FILE") || strings.HasPrefix(call, "size") && what == "another version") {
				continue
			}
			none := strings.HasPrefix(call, "load status") && slices.Contains([]string{"a missing file", "a directory"}, what) // no runs yet
			if none || strings.HasPrefix(call, "schema") && what != "a missing file" {
				continue
			}
			named := file
			if strings.HasSuffix(call, "--state DIR") && strings.Contains(call, "FILE") {
				call = strings.Replace(call, "DIR", filepath.Dir(pod), 1)
			}
			wrong(t, what, strings.NewReplacer("CLUSTER", "--kubeconfig="+clusters["a server that is away"], "FILE", file, "DIR", file, "POD", pod, "NODE", node, "new", filepath.Join(dir, "new")).Replace(call), named)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a refused call has written files")
	}
}

// wrong runs a call with a wrong input, whose name the message contains.
func wrong(t *testing.T, what, call, named string) {
	t.Helper()
	code, _, said := run(t, strings.Fields(call)...)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	switch {
	case code != ui.Usage && code != ui.Failed:
		t.Errorf("%s: %s: exit code %d: %s", what, call, code, said)
	case goWords.MatchString(said):
		t.Errorf("%s: %s: says %q: %s", what, call, goWords.FindString(said), said)
	case !strings.Contains(said, named) && !strings.Contains(said, "API server"):
		t.Errorf("%s: %s: does not name the input: %s", what, call, said)
	case len(lines) < 2 && !strings.Contains(said, "; "):
		t.Errorf("%s: %s: does not say what to do: %s", what, call, said)
	}
}

// TestInputsAreComplete: inputs has a call of each verb, except those that read nothing.
func TestInputsAreComplete(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		name := strings.TrimPrefix(c.CommandPath(), "kubectl fettle ")
		top, _, _ := strings.Cut(name, " ")
		if !c.Runnable() || c.HasSubCommands() || slices.Contains([]string{"version", "help", "completion", "size"}, top) || c.IsAdditionalHelpTopicCommand() {
			return
		}
		if !slices.ContainsFunc(inputs, func(call string) bool { return strings.HasPrefix(call, name+" ") }) {
			t.Errorf("inputs has no call of %s", name)
		}
	}
	walk(tree("test"))
}

// answering starts a server that sends text on each connection, or nothing if it is "", and returns
// its URL.
func answering(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			if text != "" {
				go func() {
					_, _ = c.Read(make([]byte, 4096))
					_, _ = c.Write([]byte(text))
					c.Close()
				}()
			}
		}
	}()
	return "http://" + l.Addr().String()
}
