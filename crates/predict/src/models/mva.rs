//! Closed queueing networks with one class of customers: threads circulate between stations (CPUs, locks) and a delay.
//!
//! Source: M. Reiser and S. Lavenberg, JACM 1980 (mean value analysis); J. Buzen, CACM 1973 (convolution); A. Seidmann et al.
//! 1987 (a station of m servers as one server m times as fast, and a delay).
//!
//! Exact for exponential service under first come first served, and for any service time under processor sharing.
//! The textbook form of multi-server mean value analysis subtracts probabilities and loses all digits with many
//! servers; here stations of several servers go through the convolution algorithm, which only adds positive terms,
//! scaled so that nothing over- or underflows. What no product form knows: that a lock's holder needs a CPU too
//! ([`super::ctmc`], [`super::surrogate`] do).

/// A place to queue at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Service that one round needs here.
    pub demand: f64,
    /// Customers served at once.
    pub n_servers: usize,
}

impl Station {
    /// A station.
    pub fn new(demand: f64, n_servers: usize) -> Station {
        Station { demand, n_servers }
    }
}

/// Stations with queues, and a delay without one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Time of a round spent at no station.
    pub delay: f64,
    /// Places to queue at.
    pub stations: Vec<Station>,
}

/// The behaviour of a network with N customers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solution {
    /// Rounds per unit of time.
    pub throughput: f64,
    /// Time of a round at each station, with waiting.
    pub response: Vec<f64>,
    /// Mean customers at each station.
    pub queue: Vec<f64>,
}

/// Rounds per unit of time of `n` customers.
pub fn throughput(network: &Network, n: usize) -> f64 {
    within(network, n, 4_000_000).throughput
}

/// The exact answer where that takes no more than so many operations, else [`approximate`].
pub fn within(network: &Network, n: usize, operations: usize) -> Solution {
    let k = network.stations.len().max(1);
    let exact = if network.stations.iter().all(|s| s.n_servers == 1) {
        n.saturating_mul(k)
    } else {
        n.saturating_mul(n).saturating_mul(k).saturating_mul(k)
    };
    if exact <= operations { solve(network, n) } else { approximate(network, n) }
}

/// The exact answer, by the convolution algorithm: one station after the other is added to the normalising constants.
pub fn solve(network: &Network, n: usize) -> Solution {
    let k = network.stations.len();
    if n == 0 {
        return Solution { throughput: 0.0, response: vec![0.0; k], queue: vec![0.0; k] };
    }
    if network.stations.iter().all(|s| s.n_servers == 1) {
        return single_servers(network, n);
    }
    let all = constants(network, n, usize::MAX);
    let throughput = (all[n - 1] - all[n]).exp();
    let queue: Vec<f64> = (0..k)
        .map(|i| {
            // P(j here) = f_i(j) G_without_i(n - j) / G(n).
            let rest = constants(network, n, i);
            let f = factors(&network.stations[i], n);
            (1..=n).map(|j| j as f64 * (f[j] + rest[n - j] - all[n]).exp()).sum()
        })
        .collect();
    Solution { throughput, response: queue.iter().map(|q| q / throughput).collect(), queue }
}

/// Logarithms of the normalising constants G(0..=n), station `without` left out.
fn constants(network: &Network, n: usize, without: usize) -> Vec<f64> {
    // The delay alone: Z^j / j!.
    let mut g = vec![f64::NEG_INFINITY; n + 1];
    g[0] = 0.0;
    if network.delay > 0.0 {
        for j in 1..=n {
            g[j] = g[j - 1] + network.delay.ln() - (j as f64).ln();
        }
    }
    for (i, station) in network.stations.iter().enumerate() {
        if i == without || station.demand <= 0.0 {
            continue;
        }
        if station.n_servers == 1 {
            // g'(j) = g(j) + D g'(j - 1).
            for j in 1..=n {
                g[j] = log_add(g[j], station.demand.ln() + g[j - 1]);
            }
            continue;
        }
        let f = factors(station, n);
        g = (0..=n).map(|j| log_sum((0..=j).map(|m| f[m] + g[j - m]))).collect();
    }
    g
}

/// log of D^j / prod(min(1..=j, servers)).
fn factors(station: &Station, n: usize) -> Vec<f64> {
    let mut f = vec![0.0; n + 1];
    for j in 1..=n {
        let servers = j.min(station.n_servers) as f64;
        f[j] = if station.demand > 0.0 {
            f[j - 1] + station.demand.ln() - servers.ln()
        } else {
            f64::NEG_INFINITY
        };
    }
    f
}

fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY {
        return high;
    }
    high + (low - high).exp().ln_1p()
}

fn log_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let high = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    if high == f64::NEG_INFINITY {
        return high;
    }
    high + terms.map(|t| (t - high).exp()).sum::<f64>().ln()
}

/// Mean value analysis proper: all stations have one server.
fn single_servers(network: &Network, n: usize) -> Solution {
    let mut out = Solution { queue: vec![0.0; network.stations.len()], ..Solution::default() };
    for customers in 1..=n {
        // An arriving customer sees the queue of a network with one customer less.
        out.response =
            network.stations.iter().zip(&out.queue).map(|(s, q)| s.demand * (1.0 + q)).collect();
        let round = network.delay + out.response.iter().sum::<f64>();
        out.throughput = if round > 0.0 { customers as f64 / round } else { f64::INFINITY };
        out.queue = out.response.iter().map(|r| r * out.throughput).collect();
    }
    out
}

/// Seidmann's transformation, and then Schweitzer's and Bard's: an arriving customer finds the queue that there is on average without its
/// own share. Takes no longer with more customers, and is the nearer to the exact answer the more there are.
pub fn approximate(network: &Network, n: usize) -> Solution {
    let mut simple = network.clone();
    for station in &mut simple.stations {
        let m = station.n_servers.max(1) as f64;
        simple.delay += station.demand * (m - 1.0) / m;
        *station = Station::new(station.demand / m, 1);
    }
    let k = simple.stations.len();
    let others = (n.max(1) - 1) as f64 / n.max(1) as f64;
    let mut out = Solution {
        throughput: 0.0,
        response: vec![0.0; k],
        queue: vec![n as f64 / k.max(1) as f64; k],
    };
    for _ in 0..1_000 {
        for (i, station) in simple.stations.iter().enumerate() {
            out.response[i] = station.demand * (1.0 + others * out.queue[i]);
        }
        let round = simple.delay + out.response.iter().sum::<f64>();
        let before = out.throughput;
        out.throughput = if round > 0.0 { n as f64 / round } else { 0.0 };
        for i in 0..k {
            out.queue[i] = out.response[i] * out.throughput;
        }
        if (out.throughput - before).abs() <= 1e-9 * out.throughput {
            break;
        }
    }
    for (i, station) in network.stations.iter().enumerate() {
        let m = station.n_servers.max(1) as f64;
        out.response[i] += station.demand * (m - 1.0) / m;
        out.queue[i] = out.response[i] * out.throughput;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(delay: f64, stations: &[(f64, usize)]) -> Network {
        Network { delay, stations: stations.iter().map(|&(d, m)| Station::new(d, m)).collect() }
    }

    #[test]
    fn mva_balanced_stations_have_a_closed_form() {
        // K equal stations, no delay: X = n / (D (n + K - 1)).
        let net = network(0.0, &[(2.0, 1); 3]);
        for n in 1..20 {
            let x = throughput(&net, n);
            assert!((x - n as f64 / (2.0 * (n + 2) as f64)).abs() < 1e-12, "{n}: {x}");
        }
    }

    #[test]
    fn mva_repairman_is_erlangs() {
        // One server, delay: X = (1 - p0) / D with p0 = 1 / sum(n!/(n-j)! (D/Z)^j).
        let (d, z, n) = (1.5, 7.0, 6);
        let mut term = 1.0;
        let mut sum = 1.0;
        for j in 1..=n {
            term *= (n - j + 1) as f64 * d / z;
            sum += term;
        }
        let want = (1.0 - 1.0 / sum) / d;
        assert!((throughput(&network(z, &[(d, 1)]), n) - want).abs() < 1e-12);
        // The convolution, forced by a second station with two servers and next to no demand, agrees.
        let x = throughput(&network(z, &[(d, 1), (1e-9, 2)]), n);
        assert!((x - want).abs() < 1e-7);
    }

    #[test]
    fn mva_enough_servers_are_a_delay() {
        let servers = throughput(&network(0.0, &[(5.0, 8), (1.0, 1)]), 8);
        let delay = throughput(&network(5.0, &[(1.0, 1)]), 8);
        assert!((servers - delay).abs() < 1e-12);
    }

    #[test]
    fn mva_approximation_is_near() {
        for (delay, stations) in [
            (10.0, &[(1.0, 64), (0.01, 1)][..]),
            (0.0, &[(1.0, 1), (0.7, 1), (0.2, 1)]),
            (5.0, &[(1.0, 8)]),
        ] {
            let net = network(delay, stations);
            for n in [40, 200, 1000] {
                let exact = solve(&net, n).throughput;
                let error = approximate(&net, n).throughput / exact - 1.0;
                assert!(error.abs() < 0.05, "{n} at {stations:?}: {error}");
            }
            // A network too large for the exact answer gets the approximation, at once.
            let many = throughput(&net, 1_000_000);
            assert!(many.is_finite() && many > 0.0);
        }
    }

    #[test]
    fn mva_many_servers_stay_stable() {
        // 1,000 threads on 64 CPUs: the textbook form breaks down here. All servers are busy, and Little's law holds.
        let net = network(10.0, &[(1.0, 64), (0.01, 1)]);
        let exact = solve(&net, 1000);
        assert!((exact.throughput - 64.0).abs() < 1e-6, "{}", exact.throughput);
        let total: f64 = exact.queue.iter().sum::<f64>() + net.delay * exact.throughput;
        assert!((total - 1000.0).abs() < 1e-3, "Little's law: {total}");
    }
}
