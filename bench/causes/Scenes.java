// SPDX-License-Identifier: MIT OR Apache-2.0
import java.util.stream.IntStream;

/** Threads that compute inside one monitor; or items of a parallel stream that sleep (bench/causes/run): the argument says which. */
public class Scenes {
    static final Object BANK = new Object();
    static long sum;

    static long audit(long s) {
        for (int i = 0; i < 6000000; i++) {
            s = s * 31 ^ i;
        }
        return s;
    }

    static void transfer(long n) {
        synchronized (BANK) {
            sum += audit(n);
        }
    }

    static int fetchPrice(int item) {
        try {
            Thread.sleep(20);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return item;
    }

    public static void main(String[] args) throws InterruptedException {
        if (args.length > 0 && args[0].equals("asleep")) {
            System.out.println(IntStream.range(0, 80).parallel().map(Scenes::fetchPrice).sum());
            return;
        }
        Thread[] tellers = new Thread[4];
        for (int k = 0; k < tellers.length; k++) {
            tellers[k] = new Thread(() -> {
                for (int i = 0; i < 40; i++) {
                    transfer(i);
                }
            });
            tellers[k].start();
        }
        for (Thread teller : tellers) {
            teller.join();
        }
    }
}
