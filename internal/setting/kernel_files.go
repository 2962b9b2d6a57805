package setting

import (
	"path"
	"strings"
)

// KernelFiles implements KernelFileLister.
func (k sysctl) KernelFiles(s Setting) []string {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return nil
	}
	files := []string{p}
	for alias, name := range sysctlAliases {
		if name == s.Name {
			if p, err := SysctlPath(alias); err == nil {
				files = append(files, p)
			}
		}
	}
	if attribute, ok := strings.CutPrefix(s.Name, "vm."); ok && (attribute == "nr_hugepages" || attribute == "nr_overcommit_hugepages") {
		files = append(files, hugePools+k.defaultHugePage()+"/"+attribute)
		if attribute == "nr_hugepages" {
			files = append(files, hugePools+k.defaultHugePage()+"/nr_hugepages_mempolicy")
		}
	}
	if p, ok := sysctlParameters[s.Name]; ok {
		files = append(files, p)
	}
	return files
}

// KernelFiles implements KernelFileLister.
func (k sysfs) KernelFiles(s Setting) []string {
	if below("/sys/", s.Name) != nil {
		return nil
	}
	files := []string{s.Name}
	if disk, ok := strings.CutSuffix(s.Name, "/queue/read_ahead_kb"); ok {
		if number, err := k.host.Files.ReadFile(disk + "/dev"); err == nil {
			files = append(files, path.Join("/sys/devices/virtual/bdi", strings.TrimSpace(string(number)), "read_ahead_kb"))
		}
	}
	return files
}
