package kubelet

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestMergedAsKubelet holds what is read against what the kubelets' own code made of the
// same files (test/admission TestConfigMerge, kubelets 1.31.14, 1.34.4,
// 1.35.4, 1.36.3 and 1.37.2).
func TestMergedAsKubelet(t *testing.T) {
	for _, table := range []struct {
		file, version string
	}{{"merges.json", "1.34.4"}, {"merges.json", ""}, {"merges-before-1.32.json", "1.31.14"}, {"merges-before-1.32.json", "1.29.14"}} {
		text, err := os.ReadFile("testdata/" + table.file)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct {
			Base    string            `json:"base"`
			DropIns map[string]string `json:"drop_ins"`
			Options map[string]string `json:"options"`
			Starts  bool              `json:"starts"`
		}
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		compared, wrong := 0, 0
		all = all[:root.Sample(len(all))]
		for _, c := range all {
			files := map[string]string{
				"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/k.yaml --config-dir=/etc/k.d\n", "etc/k.yaml": c.Base,
			}
			if table.version != "" {
				files["var/lib/dpkg/status"] = "Package: kubelet\nStatus: install ok installed\nVersion: " + table.version + "-1.1\n"
			}
			for name, text := range c.DropIns {
				files["etc/k.d/"+name] = text
			}
			found, err := find(t.Context(), machine.Mounted(t, files))
			if (err == nil) != c.Starts {
				t.Errorf("%s starts with %q: %t, and %v", table.version, c.DropIns, c.Starts, err)
			}
			if !c.Starts {
				continue
			}
			if err != nil || len(found) != 1 {
				t.Fatalf("%d found: %v\n%s%q", len(found), err, c.Base, c.DropIns)
			}
			for _, p := range Product.Parameters {
				def := p.Default
				if more, ok := map[string]string{"kubeAPIQPS": "50", "kubeAPIBurst": "100"}[p.Name]; ok {
					def = more
				}
				got, want := found[0].Option(p.Name).Effective().Or(def), c.Options[p.Name]
				if parts := strings.Split(got, ","); strings.Contains(got, "=") {
					slices.Sort(parts)
					got = strings.Join(parts, ",")
				}
				compared++
				if got != want {
					if wrong++; wrong < 5 {
						t.Errorf("%s: %s is %q, and the kubelet has %q:\n%s%v", table.version, p.Name, got, want, c.Base, c.DropIns)
					}
				}
			}
		}
		t.Logf("%s: %d options compared", table.version, compared)
		if compared < root.Sample(1900) {
			t.Error("too few were compared")
		}
	}
}

// TestRefusedFiles are files with which the kubelet does not start (test/admission,
// TestConfigKinds has the same table for kubelet 1.34.4).
func TestRefusedFiles(t *testing.T) {
	const whole = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for text, starts := range map[string]bool{
		whole + "maxPods: 99\n": true, "maxPods: 99\n": false, "kind: KubeletConfiguration\nmaxPods: 99\n": false,
		"apiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 99\n": false, "": false, "# nothing\n": false, "---\n": false, "null\n": false, "{}\n": false,
		"apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n": false, "apiVersion: v1\nkind: KubeletConfiguration\n": false,
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\n": false,
	} {
		for _, files := range []map[string]string{{"etc/k.yaml": text}, {"etc/k.yaml": whole, "etc/k.d/10-a.conf": text}} {
			files["etc/systemd/system/kubelet.service"] = "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/k.yaml --config-dir=/etc/k.d\n"
			if _, err := find(t.Context(), machine.Mounted(t, files)); (err == nil) != starts {
				t.Errorf("%q: %v", files, err)
			}
		}
	}
}

// TestMergePlaces says where each value is from, also of a map of several files.
func TestMergePlaces(t *testing.T) {
	files := map[string]string{
		"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/k.yaml --config-dir=/etc/k.d\n",
		"etc/k.yaml":                         "kind: KubeletConfiguration\nsystemReserved: {cpu: 500m, memory: 1Gi}\ncpuManagerPolicy: static\nkubeReserved:\n  cpu: \"1\"\nevictionHard: {memory.available: 1Gi}\napiVersion: kubelet.config.k8s.io/v1beta1\n",
		"etc/k.d/10-a.conf":                  "kind: KubeletConfiguration\nsystemReserved: {memory: 2Gi}\ncpuManagerPolicy: null\nevictionHard: null\napiVersion: kubelet.config.k8s.io/v1beta1\n",
		"etc/k.d/20-more/b.conf":             "kind: KubeletConfiguration\nkubeReserved: {cpu: null}\napiVersion: kubelet.config.k8s.io/v1beta1\n",
		"etc/k.d/30.yaml":                    "kind: KubeletConfiguration\nmaxPods: 5\napiVersion: kubelet.config.k8s.io/v1beta1\n",
	}
	found, err := find(t.Context(), machine.Mounted(t, files))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d found: %v", len(found), err)
	}
	for name, want := range map[string]string{
		"systemReserved": "cpu=500m,memory=2Gi /etc/k.d/10-a.conf:2", "cpuManagerPolicy": " ", "kubeReserved": " ", "evictionHard": " ", "maxPods": " ",
	} {
		f := found[0].Option(name).Effective()
		got := f.Or("") + " " + f.Source()
		if f.Or("") == "" {
			got = " "
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name := range maps.Keys(replacedByDefault) {
		if name != "topologyManagerScope" && !slices.ContainsFunc(Product.Parameters, func(p product.Parameter) bool { return p.Name == name }) {
			t.Errorf("%s is not an option", name)
		}
	}
}

// TestDefaultEviction: mergeDefaultEvictionSettings of the main file fills its thresholds
// from 1.33 on, before the drop-ins come; in a drop-in it does nothing.
func TestDefaultEviction(t *testing.T) {
	const head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
	const merge, written = "mergeDefaultEvictionSettings: true\n", "evictionHard: {nodefs.available: 7%}\n"
	const all = "nodefs.available=7%,memory.available=100Mi,nodefs.inodesFree=5%,imagefs.available=15%,imagefs.inodesFree=5%"
	for _, tt := range []struct {
		main, dropIn string
		fill         bool
		want         string
	}{
		{written + merge, "", true, all},
		{written + merge, "", false, "nodefs.available=7%"},
		{written, merge, true, "nodefs.available=7%"},
		{merge, "", true, ""},
		{merge + "evictionHard: {}\n", "", true, "memory.available=100Mi,nodefs.available=10%,nodefs.inodesFree=5%,imagefs.available=15%,imagefs.inodesFree=5%"},
		{written + merge, "evictionHard: {memory.available: 1Gi}\n", true, strings.Replace(all, "100Mi", "1Gi", 1)},
	} {
		h := machine.Mounted(t, map[string]string{"etc/k.yaml": head + tt.main, "etc/d/1.conf": head + tt.dropIn})
		d, err := loadAll(h, []string{"/etc/k.yaml", "/etc/d/1.conf"}, true, tt.fill)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.options()["evictionHard"].value; got != tt.want {
			t.Errorf("%q, %q: %s", tt.main, tt.dropIn, got)
		}
	}
}

// TestFieldTypes: what the decoder of kubelet 0.34.4 and 1.34 accepts and refuses
// (k8s.io/kubelet/config/v1beta1 through apimachinery's UniversalDecoder, strict and not).
func TestFieldTypes(t *testing.T) {
	for text, ok := range map[string]bool{
		`maxPods: "300"`: false, "maxPods: 300": true, "maxPods: 3e2": true, "maxPods: null": true, "maxPods: true": false,
		"systemReserved: {cpu: 1}": false, `systemReserved: {cpu: "1"}`: true, "systemReserved: {cpu: 500m}": true, "systemReserved: {cpu: null}": true,
		"reservedSystemCPUs: 0": false, `reservedSystemCPUs: "0"`: true, "reservedSystemCPUs: 0-1": true, "reservedSystemCPUs: 0,2": true,
		`failSwapOn: "false"`: false, "failSwapOn: false": true, "failSwapOn: no": true, `kubeAPIQPS: "5"`: false,
		"evictionHard: {memory.available: 5}": false, "evictionHard: {memory.available: 5%}": true, "containerLogMaxSize: 5000": false,
		"cpuManagerPolicy: true": false, "cpuManagerReconcilePeriod: 10": false, "cpuManagerReconcilePeriod: 10s": true,
	} {
		_, err := readConfig("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+text+"\n", "k.yaml")
		if (err == nil) != ok {
			t.Errorf("%s: %v; the kubelet takes it: %v", text, err, ok)
		}
	}
}

// TestDropInsByRelease: files that are passed over, and the variable that 1.29 wants.
func TestDropInsByRelease(t *testing.T) {
	const whole = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for _, tt := range []struct{ version, unit, refused string }{
		{"1.29.14", "", "--config-dir, /etc/systemd/system/kubelet.service:2"},
		{"1.29.14", "Environment=KUBELET_CONFIG_DROPIN_DIR_ALPHA=on\n", ""},
		{"1.30.14", "", ""},
	} {
		files := map[string]string{
			"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/k.yaml --config-dir=/etc/k.d\n" + tt.unit,
			"etc/k.yaml":                         whole, "etc/k.d/10-a.conf": whole + "maxPods: 5\n", "etc/k.d/20-b.yaml": "maxPods: 6\n", "etc/k.d/more/c.conf~": "x",
			"var/lib/dpkg/status": "Package: kubelet\nStatus: install ok installed\nVersion: " + tt.version + "-1.1\n",
		}
		found, err := find(t.Context(), machine.Mounted(t, files))
		if err != nil || len(found) != 1 {
			t.Fatalf("%d found: %v", len(found), err)
		}
		if got := printed(found[0], "refused_values"); !strings.HasPrefix(got, tt.refused) || (got == "") != (tt.refused == "") {
			t.Errorf("%s: %q", tt.version, got)
		}
		if got := printed(found[0], "skipped_files"); got != "/etc/k.d/20-b.yaml; /etc/k.d/more/c.conf~" {
			t.Errorf("%s: %q", tt.version, got)
		}
	}
}
