package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// standardConfig is the path of kubeadm's configuration file. openshiftConfig is OpenShift's;
// kubeadm stores credentials at that path.
const (
	standardConfig  = "/var/lib/kubelet/config.yaml"
	openshiftConfig = "/etc/kubernetes/kubelet.conf"
)

// unitDirs are the unit directories of systemd, in ascending precedence.
var unitDirs = []string{"/lib/systemd/system", "/usr/lib/systemd/system", "/usr/local/lib/systemd/system", "/run/systemd/system", "/etc/systemd/system"}

// kubeadmFlags is the file in which kubeadm writes arguments.
const kubeadmFlags = "/var/lib/kubelet/kubeadm-flags.env"

// environmentFiles have further arguments (kubeadm, the packages).
var environmentFiles = []string{kubeadmFlags, "/etc/default/kubelet", "/etc/sysconfig/kubelet"}

// maxDropIns is the maximum number of unit drop-ins; with more, the flags are unknown.
const maxDropIns = 500

// unitFiles returns the kubelet's unit with its drop-ins, and the existing environment files.
func unitFiles(h *host.Host) (units, env []string, err error) {
	for _, d := range unitDirs {
		if _, err := h.Files.Stat(d + "/kubelet.service"); err == nil {
			units = append(units, d+"/kubelet.service")
		}
	}
	if len(units) == 0 {
		return nil, nil, nil
	}
	dropIns := 0
	for _, d := range unitDirs {
		more, err := host.Glob(h.Files, d+"/kubelet.service.d/*.conf")
		if err != nil {
			continue
		}
		if dropIns += len(more); dropIns > maxDropIns {
			return nil, nil, fmt.Errorf("kubelet.service: %d drop-ins, at most %d are supported; the kubelet's flags are unknown", dropIns, maxDropIns)
		}
		units = append(units, more...)
	}
	for _, f := range environmentFiles {
		if _, err := h.Files.Stat(f); err == nil {
			env = append(env, f)
		}
	}
	return units, env, nil
}

// process returns the running kubelet's arguments and its pid, which is "" if no kubelet runs or
// none was recorded.
func process(h *host.Host) (args []string, pid string) {
	entries, err := h.Files.ReadDir("/proc")
	if err != nil {
		return nil, ""
	}
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		comm, err := h.Files.ReadFile("/proc/" + e.Name() + "/comm")
		if err != nil || strings.TrimSpace(string(comm)) != "kubelet" {
			continue
		}
		if line, err := h.Files.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && len(line) > 0 {
			return strings.Split(strings.TrimRight(string(line), "\x00"), "\x00"), e.Name()
		}
	}
	return nil, ""
}

// flagOptions maps command-line flags to options; a flag takes precedence over the files
// (cmd/kubelet/app/options).
var flagOptions = map[string]string{
	"max-pods": "maxPods", "pods-per-core": "podsPerCore", "cpu-manager-policy": "cpuManagerPolicy",
	"cpu-manager-reconcile-period": "cpuManagerReconcilePeriod", "topology-manager-policy": "topologyManagerPolicy",
	"memory-manager-policy": "memoryManagerPolicy", "kube-api-qps": "kubeAPIQPS", "kube-api-burst": "kubeAPIBurst",
	"pod-max-pids": "podPidsLimit", "container-log-max-size": "containerLogMaxSize", "container-log-max-files": "containerLogMaxFiles",
	"protect-kernel-defaults": "protectKernelDefaults", "fail-swap-on": "failSwapOn", "cgroup-driver": "cgroupDriver",
	"serialize-image-pulls": "serializeImagePulls", "reserved-cpus": "reservedSystemCPUs", "system-reserved": "systemReserved",
	"kube-reserved": "kubeReserved", "eviction-hard": "evictionHard", "reserved-memory": "reservedMemory",
	"cpu-manager-policy-options": "cpuManagerPolicyOptions", "topology-manager-scope": "topologyManagerScope",
	"topology-manager-policy-options": "topologyManagerPolicyOptions",
}

// readFlags adds the flags in the lines of a unit or an environment file.
func readFlags(text, name string, into map[string]told) {
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		words := strings.FieldsFunc(line, func(c rune) bool { return unicode.IsSpace(c) || c == '"' || c == '\'' })
		// In KEY=--flag=value the flag follows a variable's name.
		for i, w := range words {
			if at := strings.Index(w, "=--"); at >= 0 && !strings.HasPrefix(w, "-") {
				words[i] = w[at+1:]
			}
		}
		flagsOf(words, name+":"+strconv.Itoa(n+1), into)
	}
}

// flagsOf adds the flags among words: --name=value, --name value, or --name for true.
func flagsOf(words []string, at string, into map[string]told) {
	for i, w := range words {
		name, value, assigned := strings.Cut(w, "=")
		if !strings.HasPrefix(name, "-") || strings.Trim(name, "-") == "" {
			continue
		}
		name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-") // as the kubelet reads it
		if !assigned {
			value = "true"
			if i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") && !strings.HasPrefix(words[i+1], "$") && words[i+1] != `\` {
				value = words[i+1]
			}
		}
		value = strings.Trim(value, `"'\`)
		into["--"+name] = told{value, at}
		if option, ok := flagOptions[name]; ok {
			into[option] = told{value, at}
		}
	}
}

// maxDepth limits nested drop-in directories.
const maxDepth = 8

// DropIns returns the .conf files of --config-dir and its subdirectories in reading order, which is
// by name (cmd/kubelet/app/server.go, mergeKubeletConfigurations). It returns nil for a missing
// directory.
func DropIns(h *host.Host, dir string) ([]string, error) { return dropInsBelow(h, dir, 0) }

func dropInsBelow(h *host.Host, dir string, depth int) ([]string, error) {
	entries, err := h.Files.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case depth > maxDepth:
		return nil, fmt.Errorf("%s: directories nest more than %d deep", dir, maxDepth)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var out []string
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			more, err := dropInsBelow(h, name, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		case path.Ext(name) == ".conf":
			out = append(out, name)
		}
	}
	return out, nil
}

// skippedBelow returns the files in --config-dir that the kubelet ignores.
func skippedBelow(h *host.Host, dir string, depth int) []string {
	entries, err := h.Files.ReadDir(dir)
	if err != nil || depth > maxDepth {
		return nil
	}
	var out []string
	for _, e := range entries {
		switch name := path.Join(dir, e.Name()); {
		case e.IsDir():
			out = append(out, skippedBelow(h, name, depth+1)...)
		case path.Ext(name) != ".conf":
			out = append(out, name)
		}
	}
	return out
}

// kindOf reports whether a file is a kubelet configuration rather than credentials.
func kindOf(h *host.Host, name string) bool {
	text, err := h.Files.ReadFile(name)
	if err != nil {
		return false
	}
	var doc struct {
		Kind string `yaml:"kind"`
	}
	// An invalid file counts too, so that its error is reported.
	return yaml.Unmarshal(text, &doc) != nil || doc.Kind == "KubeletConfiguration"
}

// version answers with the Kubernetes version: from OpenShift's os-release, the package, or the
// program itself.
func version(ctx context.Context, h *host.Host) fact.Answer {
	if text, err := h.Files.ReadFile("/etc/os-release"); err == nil {
		if v := openshiftRelease(string(text)); v != "" {
			return fact.Answer{Value: v, At: "/etc/os-release"}
		}
	}
	if v, at := product.Version(h, "kubelet"); v != "" {
		return fact.Answer{Value: v, At: at}
	}
	res, err := h.Exec.Run(ctx, host.Command{Argv: []string{"kubelet", "--version"}})
	if err == nil {
		if v, ok := strings.CutPrefix(strings.TrimSpace(string(res.Stdout)), "Kubernetes v"); ok && v != "" {
			return fact.Answer{Value: v, At: "kubelet --version"}
		}
		err = errors.New("kubelet --version prints no version")
	}
	return fact.Answer{Unknown: fmt.Sprintf("no package reports the version of the kubelet: %v", err)}
}
