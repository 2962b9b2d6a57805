// Package kernel contains the plug-ins for values of the kernel: sysctl, sysfs, vm, modules,
// mounts, selinux and rtentsk. Each plans changes from a section of a profile;
// engine/plugin/table lists them.
package kernel
