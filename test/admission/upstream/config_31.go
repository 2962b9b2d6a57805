//go:build kubernetes_1_29 || kubernetes_1_31

package upstream

import (
	"context"
	"encoding/json"
	"io/fs"
	"path/filepath"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/kubelet/config/v1beta1"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
)

// Config is what a kubelet makes of its configuration file and its drop-ins: its own
// loader and merge, called in the order of cmd/kubelet/app/server.go (which exports none of
// it). Before 1.32 it merges the files into its internal type.
func Config(ctx context.Context, file, dropIns string) (*v1beta1.KubeletConfiguration, error) {
	loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, file)
	if err != nil {
		return nil, err
	}
	internal, err := load(ctx, loader)
	if err != nil {
		return nil, err
	}
	merged, err := json.Marshal(internal)
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
		text, err := loader.LoadIntoJSON()
		if err != nil {
			return err
		}
		merged, err = jsonpatch.MergePatch(merged, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(merged, internal); err != nil {
		return nil, err
	}
	out := &v1beta1.KubeletConfiguration{}
	return out, conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(internal, out, nil)
}
