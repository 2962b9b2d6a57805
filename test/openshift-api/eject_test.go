package openshiftapi

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	machineconfiguration "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/eject"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

// ejected is the JSON form of fettle eject.
type ejected struct {
	Files []struct{ Path, Content string }
}

func ejectOf(t *testing.T, bin string, args ...string) ejected {
	t.Helper()
	out, err := exec.Command(bin, append([]string{"-o", "json", "eject"}, args...)...).Output()
	if err != nil {
		t.Fatalf("fettle eject %v: %v", args, err)
	}
	var r ejected
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// settings are one of each sort of file, with characters that YAML, URLs and systemd give a meaning.
var settings = map[string]string{
	"sysctl:vm.swappiness":                                      "7",
	"sysctl:kernel.core_pattern":                                `|/usr/bin/x {{ lookup('pipe', 'id') }} #%p: "%e" ü \n`,
	"bootloader:grubenv":                                        `skew_tick=1 rcupdate.rcu_normal_after_boot=0 dyndbg="file a.c +p; x: {{y}}"`,
	"unit:crond.service/enabled":                                "enabled",
	"unit:kdump.service/enabled":                                "disabled",
	"unit:crond.service/LimitCORE":                              "0",
	"unit:crond.service/dropin/a.conf":                          "[Service]\nEnvironment=\"A=50% {{ b }}\" C='d: e'\n",
	"sysfs:/sys/kernel/mm/transparent_hugepage/enabled":         "never",
	"sysfs:/sys/devices/pci0/virtio1/block/vda/queue/scheduler": "none",
	"manager:CPUAffinity":                                       "0-2",
}

// TestMachineConfigOfEachKind decodes the MachineConfig of values of each kind.
func TestMachineConfigOfEachKind(t *testing.T) {
	files := map[string]string{
		"/bin/sh": "", "/etc/passwd": "", "/boot/": "", "/proc/version": "Linux\n", "/dev/": "",
		"/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n", "/sys/devices/pci0/virtio1/block/vda/queue/scheduler": "[none]\n",
	}
	h := machine.Copy(t, files)
	in := eject.Input{Plan: &tune.Plan{}, InForce: true, Original: func(setting.Setting) setting.Value { return setting.Unknown }}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s, err := setting.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		in.Plan.Steps = append(in.Plan.Steps, tune.Step{Setting: s, Want: setting.Text(settings[name]), Action: tune.Same})
	}
	documents := map[string]*eject.Result{}
	for _, format := range []string{eject.Files, eject.MachineConfig} {
		r, err := eject.Of(t.Context(), h, audit.Kinds(h), in)
		if err == nil {
			err = r.Convert(format)
		}
		if err != nil || len(r.Refused) > 0 {
			t.Fatalf("%v %+v", err, r.Refused)
		}
		documents[format] = r
	}
	n := decode(t, documents[eject.MachineConfig].Files[0].Content)
	for _, f := range documents[eject.Files].Files {
		if n.files[f.Path] != f.Content {
			t.Errorf("%s is %q, want %q", f.Path, n.files[f.Path], f.Content)
		}
		delete(n.files, f.Path)
	}
	if len(n.files) > 0 {
		t.Errorf("only the MachineConfig has %v", n.files)
	}
	if want := []string{"skew_tick=1", "rcupdate.rcu_normal_after_boot=0", `dyndbg="file a.c +p; x: {{y}}"`}; !slices.Equal(n.arguments, want) {
		t.Errorf("kernel arguments %q, want %q", n.arguments, want)
	}
	if want := map[string]bool{"crond.service": true, "kdump.service": false}; !maps.Equal(n.enabled, want) {
		t.Errorf("units %v, want %v", n.enabled, want)
	}
}

// TestMachineConfig decodes the MachineConfig of fettle eject with OpenShift's type and with
// Ignition's parser, and compares what a node would have with the files of the other format.
func TestMachineConfig(t *testing.T) {
	bin := program(t)
	hosts, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(hosts) == 0 {
		t.Fatal(hosts, err)
	}
	for _, h := range hosts {
		for _, profile := range []string{"throughput-performance", "network-latency"} {
			compare(t, bin, h, profile)
		}
	}
}

// node is what a MachineConfig makes of a node.
type node struct {
	files     map[string]string
	enabled   map[string]bool
	arguments []string
}

// compare ejects a profile in both formats and reports what the MachineConfig has or lacks.
func compare(t *testing.T, bin, root, profile string) node {
	t.Helper()
	plain, mc := ejectOf(t, bin, "--root", root, profile), ejectOf(t, bin, "--root", root, profile, "--format", "machineconfig")
	if len(mc.Files) != 1 {
		t.Fatalf("%s %s: %d files", root, profile, len(mc.Files))
	}
	n := decode(t, mc.Files[0].Content)
	all := maps.Clone(n.files)
	for _, f := range plain.Files {
		if strings.HasPrefix(f.Path, "/etc/default/grub.d/") {
			continue // kernelArguments
		}
		if got, ok := all[f.Path]; !ok || got != f.Content {
			t.Errorf("%s %s: %s is %q, want %q", root, profile, f.Path, got, f.Content)
		}
		delete(all, f.Path)
	}
	for p := range all {
		t.Errorf("%s %s: only the MachineConfig has %s", root, profile, p)
	}
	return n
}

// decode decodes a MachineConfig strictly.
func decode(t *testing.T, text string) node {
	t.Helper()
	n := node{files: map[string]string{}, enabled: map[string]bool{}}
	var mc machineconfiguration.MachineConfig
	if err := yaml.UnmarshalStrict([]byte(text), &mc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if mc.Kind != "MachineConfig" || mc.APIVersion != machineconfiguration.GroupVersion.String() || mc.Labels["machineconfiguration.openshift.io/role"] != "worker" {
		t.Errorf("%+v", mc.ObjectMeta)
	}
	n.arguments = mc.Spec.KernelArguments
	config, report, err := v32.ParseCompatibleVersion(mc.Spec.Config.Raw)
	if err != nil || len(report.Entries) > 0 {
		t.Fatalf("Ignition 3.2: %v\n%s\n%s", err, report.String(), text)
	}
	if _, report, err := v35.ParseCompatibleVersion(mc.Spec.Config.Raw); err != nil || report.IsFatal() {
		t.Errorf("Ignition 3.5: %v\n%s", err, report.String())
	}
	for _, f := range config.Storage.Files {
		u, err := dataurl.DecodeString(*f.Contents.Source)
		if err != nil {
			t.Errorf("%s: %v", f.Path, err)
			continue
		}
		n.files[f.Path] = string(u.Data)
		if f.Mode == nil || *f.Mode != 0o644 || f.Overwrite == nil || !*f.Overwrite || f.Contents.Compression != nil && *f.Contents.Compression != "" {
			t.Errorf("%s: mode %v, overwrite %v", f.Path, f.Mode, f.Overwrite)
		}
	}
	for _, u := range config.Systemd.Units {
		if u.Enabled != nil {
			n.enabled[u.Name] = *u.Enabled
		}
		for _, d := range u.Dropins {
			n.files["/etc/systemd/system/"+u.Name+".d/"+d.Name] = *d.Contents
		}
	}
	return n
}
