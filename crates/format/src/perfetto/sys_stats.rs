//! What the recorder read in /proc and /sys every so often (`SysStats`): memory, CPU time, frequencies, disks, pressure.
use super::wire::Message;
use crate::Result;
use std::borrow::Cow;

/// Names of `MeminfoCounters`, from 1 on.
const MEMINFO: &str = "mem_total mem_free mem_available buffers cached swap_cached active inactive active_anon
    inactive_anon active_file inactive_file unevictable mlocked swap_total swap_free dirty writeback anon_pages mapped shmem
    slab slab_reclaimable slab_unreclaimable kernel_stack page_tables commit_limit committed_as vmalloc_total vmalloc_used
    vmalloc_chunk cma_total cma_free gpu zram misc ion_heap ion_heap_pool";

/// Names of `VmstatCounters`, from 1 on.
const VMSTAT: &str = "nr_free_pages nr_alloc_batch nr_inactive_anon nr_active_anon nr_inactive_file nr_active_file nr_unevictable
    nr_mlock nr_anon_pages nr_mapped nr_file_pages nr_dirty nr_writeback nr_slab_reclaimable nr_slab_unreclaimable
    nr_page_table_pages nr_kernel_stack nr_overhead nr_unstable nr_bounce nr_vmscan_write
    nr_vmscan_immediate_reclaim nr_writeback_temp nr_isolated_anon nr_isolated_file nr_shmem nr_dirtied nr_written
    nr_pages_scanned workingset_refault workingset_activate workingset_nodereclaim nr_anon_transparent_hugepages
    nr_free_cma nr_swapcache nr_dirty_threshold nr_dirty_background_threshold pgpgin pgpgout pgpgoutclean pswpin
    pswpout pgalloc_dma pgalloc_normal pgalloc_movable pgfree pgactivate pgdeactivate pgfault pgmajfault
    pgrefill_dma pgrefill_normal pgrefill_movable pgsteal_kswapd_dma pgsteal_kswapd_normal pgsteal_kswapd_movable
    pgsteal_direct_dma pgsteal_direct_normal pgsteal_direct_movable pgscan_kswapd_dma pgscan_kswapd_normal
    pgscan_kswapd_movable pgscan_direct_dma pgscan_direct_normal pgscan_direct_movable pgscan_direct_throttle
    pginodesteal slabs_scanned kswapd_inodesteal kswapd_low_wmark_hit_quickly kswapd_high_wmark_hit_quickly
    pageoutrun allocstall pgrotated drop_pagecache drop_slab pgmigrate_success pgmigrate_fail
    compact_migrate_scanned compact_free_scanned compact_isolated compact_stall compact_fail compact_success
    compact_daemon_wake unevictable_pgs_culled unevictable_pgs_scanned unevictable_pgs_rescued
    unevictable_pgs_mlocked unevictable_pgs_munlocked unevictable_pgs_cleared unevictable_pgs_stranded nr_zspages
    nr_ion_heap nr_gpu_heap allocstall_dma allocstall_movable allocstall_normal compact_daemon_free_scanned
    compact_daemon_migrate_scanned nr_fastrpc nr_indirectly_reclaimable nr_ion_heap_pool
    nr_kernel_misc_reclaimable nr_shadow_call_stack_bytes nr_shmem_hugepages nr_shmem_pmdmapped
    nr_unreclaimable_pages nr_zone_active_anon nr_zone_active_file nr_zone_inactive_anon nr_zone_inactive_file
    nr_zone_unevictable nr_zone_write_pending oom_kill pglazyfree pglazyfreed pgrefill pgscan_direct pgscan_kswapd
    pgskip_dma pgskip_movable pgskip_normal pgsteal_direct pgsteal_kswapd swap_ra swap_ra_hit workingset_restore
    allocstall_device allocstall_dma32 balloon_deflate balloon_inflate balloon_migrate cma_alloc_fail
    cma_alloc_success nr_file_hugepages nr_file_pmdmapped nr_foll_pin_acquired nr_foll_pin_released
    nr_sec_page_table_pages nr_shadow_call_stack nr_swapcached nr_throttled_written pgalloc_device pgalloc_dma32
    pgdemote_direct pgdemote_kswapd pgreuse pgscan_anon pgscan_file pgskip_device pgskip_dma32 pgsteal_anon
    pgsteal_file thp_collapse_alloc thp_collapse_alloc_failed thp_deferred_split_page thp_fault_alloc
    thp_fault_fallback thp_fault_fallback_charge thp_file_alloc thp_file_fallback thp_file_fallback_charge
    thp_file_mapped thp_migration_fail thp_migration_split thp_migration_success thp_scan_exceed_none_pte
    thp_scan_exceed_share_pte thp_scan_exceed_swap_pte thp_split_page thp_split_page_failed thp_split_pmd
    thp_swpout thp_swpout_fallback thp_zero_page_alloc thp_zero_page_alloc_failed vma_lock_abort vma_lock_miss
    vma_lock_retry vma_lock_success workingset_activate_anon workingset_activate_file workingset_nodes
    workingset_refault_anon workingset_refault_file workingset_restore_anon workingset_restore_file";

/// Names of `PsiResource`, from 1 on.
const PRESSURE: &str = "cpu_some cpu_full io_some io_full memory_some memory_full";

/// The name with a number, or the number of a name that is not known.
fn nth(list: &'static str, number: u64) -> Cow<'static, str> {
    let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
    match index.and_then(|n| list.split_whitespace().nth(n)) {
        Some(name) => name.into(),
        None => number.to_string().into(),
    }
}

/// Calls `each` with name and value of each quantity: bytes, ns, or as the name says.
///
/// # Errors
/// Bytes that are no fields.
pub fn sys_stats(mut stats: Message<'_>, mut each: impl FnMut(&str, f64)) -> Result<()> {
    // CPUs and graphics processors without a number of their own count in the order of the file.
    let (mut cpu, mut gpu) = (0, 0);
    while let Some(field) = stats.next_field()? {
        match field.number {
            1 => {
                let (_, [key, kib], _) = numbers(field.message(), [1, 2])?;
                let name = format!("meminfo.{}", nth(MEMINFO, key));
                each(&name, kib as f64 * 1024.0);
            }
            2 => {
                let (_, [key, value], _) = numbers(field.message(), [1, 2])?;
                each(&format!("vmstat.{}", nth(VMSTAT, key)), value as f64);
            }
            3 => cpu_times(field.message(), &mut each)?,
            4 => each("forks", field.u64() as f64),
            5 => each("interrupts", field.u64() as f64),
            7 => each("softirqs", field.u64() as f64),
            10 => {
                let (_, [value], name) = numbers(field.message(), [2])?;
                each(&format!("devfreq {name}"), value as f64);
            }
            11 => {
                for khz in field.numbers() {
                    each(&format!("cpufreq_khz [CPU {cpu}]"), khz as f64);
                    cpu += 1;
                }
            }
            13 => disk(field.message(), &mut each)?,
            14 => {
                let (_, [key, ns], _) = numbers(field.message(), [1, 2])?;
                each(&format!("pressure.{}_ns", nth(PRESSURE, key)), ns as f64);
            }
            15 => {
                let (third, [degrees], first) = numbers(field.message(), [2])?;
                let name = if third.is_empty() { first } else { third };
                each(&format!("thermal_degc {name}"), degrees as f64);
            }
            16 => idle_states(field.message(), &mut each)?,
            17 => {
                for mhz in field.numbers() {
                    each(&format!("gpufreq_mhz [GPU {gpu}]"), mhz as f64);
                    gpu += 1;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The numbers of a message's fields, and its texts: field 3 and field 1.
fn numbers<const N: usize>(
    mut message: Message<'_>,
    wanted: [u32; N],
) -> Result<(Cow<'_, str>, [u64; N], Cow<'_, str>)> {
    let (mut first, mut third, mut out) = (Cow::default(), Cow::default(), [0; N]);
    while let Some(part) = message.next_field()? {
        if let Some(at) = wanted.iter().position(|&n| n == part.number) {
            out[at] = part.u64();
        } else if part.number == 1 {
            first = part.text();
        } else if part.number == 3 {
            third = part.text();
        }
    }
    Ok((third, out, first))
}

fn cpu_times(message: Message<'_>, each: &mut impl FnMut(&str, f64)) -> Result<()> {
    const NAMES: [&str; 8] =
        ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    let mut fields = message;
    let (_, [cpu], _) = numbers(message, [1])?;
    while let Some(part) = fields.next_field()? {
        if let Some(name) = (part.number as usize).checked_sub(2).and_then(|n| NAMES.get(n)) {
            each(&format!("cpu_time.{name}_ns [CPU {cpu}]"), part.u64() as f64);
        }
    }
    Ok(())
}

fn disk(message: Message<'_>, each: &mut impl FnMut(&str, f64)) -> Result<()> {
    /// The kernel counts sectors of this size, whatever the disk's are.
    const SECTOR: u64 = 512;
    let mut fields = message;
    let (_, _, name) = numbers(message, [2])?;
    while let Some(part) = fields.next_field()? {
        let (what, factor) = match part.number {
            2 => ("read_bytes", SECTOR),
            3 => ("read_ms", 1),
            4 => ("written_bytes", SECTOR),
            5 => ("write_ms", 1),
            _ => continue,
        };
        let value = part.u64() as f64 * factor as f64;
        each(&format!("disk.{what} {name}"), value);
    }
    Ok(())
}

fn idle_states(message: Message<'_>, each: &mut impl FnMut(&str, f64)) -> Result<()> {
    let mut fields = message;
    let (_, [cpu], _) = numbers(message, [1])?;
    while let Some(part) = fields.next_field()? {
        if part.number == 2 {
            let (_, [us], state) = numbers(part.message(), [2])?;
            each(&format!("cpuidle.{state}_us [CPU {cpu}]"), us as f64);
        }
    }
    Ok(())
}
