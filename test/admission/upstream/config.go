//go:build !kubernetes_1_29 && !kubernetes_1_31

package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/kubelet/config/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
)

// Config is what a kubelet makes of its configuration file and its drop-ins: its own
// loader, conversions, merge and defaults, called in the order of cmd/kubelet/app/server.go
// (which exports none of it).
func Config(ctx context.Context, file, dropIns string) (*v1beta1.KubeletConfiguration, error) {
	loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, file)
	if err != nil {
		return nil, err
	}
	internal, err := load(ctx, loader)
	if err != nil {
		return nil, err
	}
	base := &v1beta1.KubeletConfiguration{}
	if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(internal, base, nil); err != nil {
		return nil, err
	}
	merged, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dropIns, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".conf" {
			return err
		}
		loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, path)
		if err != nil {
			return err
		}
		text, kind, err := loader.LoadIntoJSON()
		if err != nil {
			return err
		}
		if kind == nil || *kind != v1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration") {
			return fmt.Errorf("%s is a %v", path, kind)
		}
		merged, err = jsonpatch.MergePatch(merged, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &v1beta1.KubeletConfiguration{}
	if err := json.Unmarshal(merged, out); err != nil {
		return nil, err
	}
	conversion.SetDefaults_KubeletConfiguration(out)
	// What does not convert back does not start.
	return out, conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(out, &kubeletconfig.KubeletConfiguration{}, nil)
}
